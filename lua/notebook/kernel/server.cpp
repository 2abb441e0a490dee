#include "lua/notebook/kernel/server.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace causeway::lua {
namespace {

using Json = nlohmann::json;

Json header_for(const xeus::xmessage& message, const std::string& kind) {
    return xeus::make_header(kind, message.header().value("username", ""), message.header().value("session", ""));
}

}  // namespace

Server::Server(std::unique_ptr<xeus::xserver> sockets) : sockets_(std::move(sockets)) {
    sockets_->register_shell_listener([this](xeus::xmessage message) { notify_shell_listener(std::move(message)); });
    sockets_->register_control_listener(
        [this](xeus::xmessage message) { notify_control_listener(std::move(message)); });
    sockets_->register_stdin_listener([this](xeus::xmessage message) { notify_stdin_listener(std::move(message)); });
    sockets_->register_internal_listener([this](Json message) { return notify_internal_listener(std::move(message)); });
}

bool Server::answers_question(const xeus::xmessage& message) const {
    const std::string question = message.parent_header().value("msg_id", "");
    return question.empty() || question == question_;
}

xeus::xcontrol_messenger& Server::get_control_messenger_impl() { return sockets_->get_control_messenger(); }

void Server::send_shell_impl(xeus::xmessage message) { sockets_->send_shell(std::move(message)); }

void Server::send_control_impl(xeus::xmessage message) { sockets_->send_control(std::move(message)); }

void Server::send_stdin_impl(xeus::xmessage message) {
    question_ = message.header().value("msg_id", "");
    const Json content = {{"prompt", message.content().value("prompt", "")}, {"password", false}};  // xeus: "pwd"
    sockets_->send_stdin(xeus::xmessage(message.identities(), Json(message.header()), Json(message.parent_header()),
                                        Json::object(), content, {}));
}

void Server::publish_impl(xeus::xpub_message message, xeus::channel channel) {
    const std::lock_guard lock(publishing_);
    sockets_->publish(std::move(message), channel);
}

void Server::start_impl(xeus::xpub_message message) { sockets_->start(std::move(message)); }

void Server::stop_impl() { sockets_->stop(); }

void Server::update_config_impl(xeus::xconfiguration& configuration) const { sockets_->update_config(configuration); }

// After an error the requests that wait are answered as "aborted": xeus answers without saying that it is busy and
// idle, and front ends go on waiting for those cells.
void Server::abort_queue_impl(const listener&, long) {
    sockets_->abort_queue([this](const xeus::xmessage& message) { abort(message); }, 0);
}

void Server::abort(const xeus::xmessage& message) {
    const std::string kind = message.header().value("msg_type", "");
    const std::string ending = "_request";
    if (kind.size() <= ending.size() || kind.compare(kind.size() - ending.size(), ending.size(), ending) != 0)
        return;  // asks for no answer
    publish_state(message, "busy");
    const std::string reply = kind.substr(0, kind.size() - ending.size()) + "_reply";
    send_shell(xeus::xmessage(message.identities(), header_for(message, reply), Json(message.header()), Json::object(),
                              Json{{"status", "aborted"}}, {}));
    publish_state(message, "idle");
}

void Server::publish_state(const xeus::xmessage& message, const char* state) {
    publish(xeus::xpub_message("causeway.status", header_for(message, "status"), Json(message.header()), Json::object(),
                               Json{{"execution_state", state}}, {}),
            xeus::channel::SHELL);
}

}  // namespace causeway::lua
