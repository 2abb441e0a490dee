// The socket by which a kernel tells all its front ends what it does. That of xeus 2.4 does not hear who subscribes to
// it; this one greets every subscriber (Jupyter Enhancement Proposal 65), so that a front end knows from when on it
// misses nothing.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <zmq.hpp>
#include <zmq_addon.hpp>

namespace causeway::lua {

class Publisher {
public:
    // The message that greets a subscriber to this topic; "" is all of them.
    using Greeting = std::function<zmq::multipart_t(const std::string& topic)>;

    // Throws zmq::error_t where nothing can be bound to the end point. Lives as long as the program.
    Publisher(zmq::context_t& context, const std::string& end_point, Greeting greeting);

    // By one thread at a time.
    void send(zmq::multipart_t message);

private:
    void run();

    zmq::socket_t subscribers_, outlet_, inlet_;
    Greeting greeting_;
    std::thread thread_;
};

}  // namespace causeway::lua
