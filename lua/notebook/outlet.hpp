// Where a session sends what its cells show, and whom it asks: messages of Jupyter's protocol, whoever carries them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace causeway::lua {

// A bundle maps a MIME type to the value in that form. Called by one thread at a time.
class Outlet {
public:
    using Json = nlohmann::json;
    virtual ~Outlet() = default;

    virtual void stream(const std::string& name, const std::string& text) = 0;
    // A display with an id, which is not "", can be updated later.
    virtual void show(const Json& bundle, const std::string& id) = 0;
    virtual void update(const Json& bundle, const std::string& id) = 0;
    virtual void result(int count, const Json& bundle) = 0;
    virtual void error(const std::string& name, const std::string& value, const std::vector<std::string>& lines) = 0;
    virtual void clear(bool wait) = 0;

    // A channel to a part of the front end, its `target`; what comes back through it goes to Session::receive.
    virtual void open_comm(const std::string& id, const std::string& target, const Json& data,
                           const Json& metadata) = 0;
    virtual void send_comm(const std::string& id, const Json& data) = 0;

    // A line that the user types; waits for it, and throws for an interrupt.
    virtual std::string ask(const std::string& prompt) = 0;
};

}  // namespace causeway::lua
