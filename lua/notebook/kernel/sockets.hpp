// The sockets of a kernel as xeus makes them: the shell's in the thread that starts them, which runs cells, the control
// socket in another. Up to version 2 they are a part of xeus (sockets_xeus.cpp), from version 3 on a library beside it,
// xeus-zmq (sockets_xeus_zmq.cpp).
#pragma once

#include <memory>
#include <xeus/xeus_context.hpp>
#include <xeus/xkernel_configuration.hpp>
#include <xeus/xserver.hpp>

namespace causeway::lua {

// That of ZeroMQ.
std::unique_ptr<xeus::xcontext> make_context();

// Throws where nothing can be bound to an end point of the configuration. Every subscriber to what is published is
// greeted (Jupyter Enhancement Proposal 65), so that a front end knows from when on it misses nothing.
std::unique_ptr<xeus::xserver> make_sockets(xeus::xcontext& context, const xeus::xconfiguration& configuration,
                                            nlohmann::json::error_handler_t handler);

}  // namespace causeway::lua
