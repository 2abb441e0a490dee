// Of xeus 2.4, with a publisher of our own: that of xeus does not hear who subscribes to it.
#include <string>
#include <utility>
#include <xeus/xauthentication.hpp>
#include <xeus/xkernel.hpp>
#include <xeus/xmessage.hpp>
#include <xeus/xserver_shell_main.hpp>
#include <xeus/xzmq_serializer.hpp>
#include <zmq.hpp>

#include "lua/notebook/kernel/publisher.hpp"
#include "lua/notebook/kernel/sockets.hpp"

namespace causeway::lua {
namespace {

using Json = nlohmann::json;

std::string end_point_of(const xeus::xconfiguration& c, const std::string& port) {
    return c.m_transport + "://" + c.m_ip + (c.m_transport == "tcp" ? ":" : "-") + port;
}

// Without the port of what is published, which xeus is not to take: it takes one that nobody listens to.
xeus::xconfiguration without_publisher(xeus::xconfiguration c) {
    c.m_iopub_port.clear();
    return c;
}

class Sockets : public xeus::xserver_shell_main {
public:
    Sockets(zmq::context_t& context, const xeus::xconfiguration& configuration, Json::error_handler_t handler)
        : xserver_shell_main(context, without_publisher(configuration), handler),
          handler_(handler),
          signatures_(xeus::make_xauthentication(configuration.m_signature_scheme, configuration.m_key)),
          publisher_(context, end_point_of(configuration, configuration.m_iopub_port),
                     [this](const std::string& topic) { return greeting(topic); }) {}

private:
    void start_impl(xeus::xpub_message message) override {
        publish(std::move(message), xeus::channel::SHELL);
        xserver_shell_main::start_impl({});
    }

    void publish_impl(xeus::xpub_message message, xeus::channel) override {
        publisher_.send(xeus::xzmq_serializer::serialize_iopub(std::move(message), *signatures_, handler_));
    }

    zmq::multipart_t greeting(const std::string& topic) const {
        return xeus::xzmq_serializer::serialize_iopub(
            xeus::xpub_message(topic, xeus::make_header("iopub_welcome", xeus::get_user_name(), ""), Json::object(),
                               Json::object(), Json{{"subscription", topic}}, {}),
            *signatures_, handler_);
    }

    Json::error_handler_t handler_;
    std::unique_ptr<xeus::xauthentication> signatures_;
    Publisher publisher_;
};

}  // namespace

std::unique_ptr<xeus::xcontext> make_context() { return xeus::make_context<zmq::context_t>(); }

std::unique_ptr<xeus::xserver> make_sockets(xeus::xcontext& context, const xeus::xconfiguration& configuration,
                                            Json::error_handler_t handler) {
    return std::make_unique<Sockets>(context.get_wrapped_context<zmq::context_t>(), configuration, handler);
}

}  // namespace causeway::lua
