// Of xeus-zmq 1 and 3, which serve xeus 3 and 5; they greet subscribers themselves.
#include <xeus-zmq/xzmq_context.hpp>
#if __has_include(<xeus-zmq/xserver_shell_main.hpp>)
#include <xeus-zmq/xserver_shell_main.hpp>
#else
#include <xeus-zmq/xserver_zmq_split.hpp>
#endif

#include "lua/notebook/kernel/sockets.hpp"

namespace causeway::lua {

std::unique_ptr<xeus::xcontext> make_context() { return xeus::make_zmq_context(); }

std::unique_ptr<xeus::xserver> make_sockets(xeus::xcontext& context, const xeus::xconfiguration& configuration,
                                            nlohmann::json::error_handler_t handler) {
    return xeus::make_xserver_shell_main(context, configuration, handler);
}

}  // namespace causeway::lua
