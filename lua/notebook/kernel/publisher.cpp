#include "lua/notebook/kernel/publisher.hpp"

#include <utility>

namespace causeway::lua {
namespace {

constexpr const char* inside = "inproc://causeway-publisher";
constexpr int no_limit = 0;  // of messages that wait: what a slow front end has not read yet is not lost

}  // namespace

Publisher::Publisher(zmq::context_t& context, const std::string& end_point, Greeting greeting)
    : subscribers_(context, zmq::socket_type::xpub),
      outlet_(context, zmq::socket_type::pull),
      inlet_(context, zmq::socket_type::push),
      greeting_(std::move(greeting)) {
    subscribers_.set(zmq::sockopt::xpub_verbose, true);  // tells of every subscriber, not only of the first to a topic
    subscribers_.set(zmq::sockopt::sndhwm, no_limit);
    subscribers_.bind(end_point);
    outlet_.bind(inside);
    inlet_.connect(inside);
    thread_ = std::thread(&Publisher::run, this);
    thread_.detach();
}

void Publisher::send(zmq::multipart_t message) { message.send(inlet_); }

void Publisher::run() {
    zmq::pollitem_t items[] = {{outlet_, 0, ZMQ_POLLIN, 0}, {subscribers_, 0, ZMQ_POLLIN, 0}};
    while (true) {
        zmq::poll(items, 2);
        if (items[0].revents & ZMQ_POLLIN) {
            zmq::multipart_t message;
            message.recv(outlet_);
            message.send(subscribers_);
        }
        if (items[1].revents & ZMQ_POLLIN) {
            zmq::multipart_t event;
            event.recv(subscribers_);
            const std::string text = event.popstr();  // a byte 1, for one who comes, and the topic
            if (!text.empty() && text[0] == 1) greeting_(text.substr(1)).send(subscribers_);
        }
    }
}

}  // namespace causeway::lua
