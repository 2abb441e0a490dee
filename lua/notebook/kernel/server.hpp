// What a kernel's core speaks to: the sockets of xeus, and what front ends need beside what these do.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <xeus/xmessage.hpp>
#include <xeus/xserver.hpp>

namespace causeway::lua {

class Server : public xeus::xserver {
public:
    explicit Server(std::unique_ptr<xeus::xserver> sockets);

    // Whether this is an answer to the last question. One that an interrupt has ended may be answered still, and not
    // all front ends say which one they answer.
    bool answers_question(const xeus::xmessage& message) const;

private:
    xeus::xcontrol_messenger& get_control_messenger_impl() override;
    void send_shell_impl(xeus::xmessage message) override;
    void send_control_impl(xeus::xmessage message) override;
    void send_stdin_impl(xeus::xmessage message) override;
    void publish_impl(xeus::xpub_message message, xeus::channel channel) override;  // from any thread
    void start_impl(xeus::xpub_message message) override;
    void abort_queue_impl(const listener& answer, long polling_interval) override;
    void stop_impl() override;
    void update_config_impl(xeus::xconfiguration& configuration) const override;

    void abort(const xeus::xmessage& message);
    void publish_state(const xeus::xmessage& message, const char* state);

    std::unique_ptr<xeus::xserver> sockets_;
    std::string question_;   // the id of the last one
    std::mutex publishing_;  // sockets are not to be shared by threads, and what cells print has one of its own
};

}  // namespace causeway::lua
