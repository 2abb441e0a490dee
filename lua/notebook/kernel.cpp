// The program causeway-kernel: a session behind the sockets of xeus 2.4, which speaks Jupyter's protocol. All that is
// known of xeus is in this file.
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include <xeus/xhistory_manager.hpp>
#include <xeus/xinterpreter.hpp>
#include <xeus/xkernel.hpp>
#include <xeus/xkernel_configuration.hpp>
#include <xeus/xmessage.hpp>
#include <xeus/xserver_shell_main.hpp>
#include <zmq.hpp>

#include "core/base/error.hpp"
#include "core/measure/machine.hpp"
#include "lua/notebook/interrupt_mask.hpp"
#include "lua/notebook/session.hpp"
#include "lua/shell/signals.hpp"

namespace {

using namespace causeway;
using namespace causeway::lua;
using Json = nlohmann::json;

constexpr int status_of_error = 1, status_of_usage = 2;

// While it lives no interrupt reaches this thread: a message that a socket has half taken must not be cut off.
struct Uninterrupted : InterruptMask {
    Uninterrupted() : InterruptMask(SIG_BLOCK) {}
};

// The cells of this session, for history_request. That of xeus knows neither their numbers nor the protocol's patterns.
class Cells : public xeus::xhistory_manager {
public:
    // The number of the cell that is stored next.
    int number = 0;

private:
    struct Cell {
        int number;
        std::string code;
    };

    void configure_impl() override {}

    void store_inputs_impl(int, int, const std::string& code, const std::string&) override {
        cells_.push_back({number, code});
    }

    Json get_tail_impl(int n, bool, bool output) const override { return last(n, output, cells_); }

    // From the cell with the number `start` up to, not including, `stop`.
    Json get_range_impl(int, int start, int stop, bool, bool output) const override {
        std::vector<Cell> chosen;
        for (const Cell& cell : cells_) {
            if (cell.number >= start && cell.number < stop) chosen.push_back(cell);
        }
        return last(static_cast<int>(chosen.size()), output, chosen);
    }

    Json search_impl(const std::string& pattern, bool, bool output, int n, bool unique) const override {
        std::vector<Cell> chosen;
        for (const Cell& cell : cells_) {
            if (fnmatch(pattern.c_str(), cell.code.c_str(), 0) != 0) continue;
            if (unique) std::erase_if(chosen, [&](const Cell& other) { return other.code == cell.code; });
            chosen.push_back(cell);
        }
        return last(n, output, chosen);
    }

    // The last n as [session, number, code], or with [code, output] in its place; what cells have shown is not kept.
    static Json last(int n, bool output, const std::vector<Cell>& cells) {
        const auto size = static_cast<int>(cells.size());
        Json list = Json::array();
        for (int i = std::max(0, size - std::max(n, 0)); i < size; ++i) {
            const Cell& cell = cells[static_cast<std::size_t>(i)];
            const Json code = output ? Json::array({cell.code, nullptr}) : Json(cell.code);
            list.push_back(Json::array({1, cell.number, code}));
        }
        return {{"status", "ok"}, {"history", list}};
    }

    std::vector<Cell> cells_;
};

class Interpreter : public xeus::xinterpreter, public Outlet {
public:
    explicit Interpreter(Cells& cells) : cells_(cells), session_(*this) {}

    void stream(const std::string& name, const std::string& text) override {
        const Uninterrupted whole;
        publish_stream(name, text);
    }
    void show(const Json& bundle, const std::string& id) override {
        const Uninterrupted whole;
        display_data(bundle, Json::object(), transient(id));
    }
    void update(const Json& bundle, const std::string& id) override {
        const Uninterrupted whole;
        update_display_data(bundle, Json::object(), transient(id));
    }
    void result(int count, const Json& bundle) override {
        const Uninterrupted whole;
        publish_execution_result(count, bundle, Json::object());
    }
    void error(const std::string& name, const std::string& value, const std::vector<std::string>& lines) override {
        const Uninterrupted whole;
        publish_execution_error(name, value, lines);
    }
    void clear(bool wait) override {
        const Uninterrupted whole;
        clear_output(wait);
    }

private:
    static Json transient(const std::string& id) { return id.empty() ? Json::object() : Json{{"display_id", id}}; }

    void configure_impl() override {}

    Json execute_request_impl(int count, const std::string& code, bool silent, bool, Json expressions, bool) override {
        cells_.number = count;
        return session_.execute(code, count, silent, expressions);
    }
    Json complete_request_impl(const std::string& code, int cursor) override { return session_.complete(code, cursor); }
    Json inspect_request_impl(const std::string& code, int cursor, int) override {
        return session_.inspect(code, cursor);
    }
    Json is_complete_request_impl(const std::string& code) override { return session_.is_complete(code); }
    Json kernel_info_request_impl() override { return kernel_info(); }

    // Called by the thread of the control socket: a cell that runs is stopped, so that the kernel ends soon.
    void shutdown_request_impl() override { session_.stop(); }

    Cells& cells_;
    Session session_;
};

// After an error the requests that wait are answered as "aborted". xeus answers without saying that it is busy and
// idle, and front ends go on waiting for those cells.
class Server : public xeus::xserver_shell_main {
public:
    using xserver_shell_main::xserver_shell_main;

private:
    void abort_queue_impl(const listener&, long) override {
        xserver_shell_main::abort_queue_impl([this](xeus::xmessage message) { abort(std::move(message)); }, 0);
    }

    void abort(xeus::xmessage message) {
        const std::string kind = message.header().value("msg_type", "");
        const std::string ending = "_request";
        if (kind.size() <= ending.size() || kind.compare(kind.size() - ending.size(), ending.size(), ending) != 0)
            return;  // asks for no answer
        publish_state(message, "busy");
        const std::string reply = kind.substr(0, kind.size() - ending.size()) + "_reply";
        send_shell(xeus::xmessage(message.identities(), header_for(message, reply), Json(message.header()),
                                  Json::object(), Json{{"status", "aborted"}}, {}));
        publish_state(message, "idle");
    }

    static Json header_for(const xeus::xmessage& message, const std::string& kind) {
        return xeus::make_header(kind, message.header().value("username", ""), message.header().value("session", ""));
    }

    void publish_state(const xeus::xmessage& message, const char* state) {
        publish(xeus::xpub_message("causeway.status", header_for(message, "status"), Json(message.header()),
                                   Json::object(), Json{{"execution_state", state}}, {}),
                xeus::channel::SHELL);
    }
};

std::unique_ptr<xeus::xserver> make_server(xeus::xcontext& context, const xeus::xconfiguration& configuration,
                                           Json::error_handler_t handler) {
    return std::make_unique<Server>(context.get_wrapped_context<zmq::context_t>(), configuration, handler);
}

xeus::xconfiguration read_connection(const std::string& path) {
    struct stat file {};
    if (stat(path.c_str(), &file) != 0) throw Error(sentence(path, ": ", std::strerror(errno)));
    if ((file.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        std::fprintf(stderr, "causeway-kernel: %s can be read by others, who could run code here\n", path.c_str());
    try {
        return xeus::load_configuration(path);
    } catch (const std::exception& error) {
        throw Error(sentence(path, ": expected a connection file of Jupyter: ", error.what()));
    }
}

// Serves until a front end ends the kernel; xeus leaves the program then.
void serve(const std::string& path) {
    const xeus::xconfiguration configuration = read_connection(path);
    auto cells = std::make_unique<Cells>();
    auto interpreter = std::make_unique<Interpreter>(*cells);
    xeus::xkernel kernel(configuration, xeus::get_user_name(), xeus::make_context<zmq::context_t>(),
                         std::move(interpreter), make_server, std::move(cells), nullptr, xeus::make_null_debugger,
                         Json::object(), Json::error_handler_t::replace);
    kernel.start();
}

// Cells have no standard input of their own: that of the server is not theirs to read.
void close_standard_input() {
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    if (nothing != STDIN_FILENO) close(nothing);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2 || argv[1][0] == '-') {
        std::fputs("usage: causeway-kernel CONNECTION_FILE\nJupyter starts it; ./lab notebook sets it up\n", stderr);
        return status_of_usage;
    }
    const Uninterrupted until_a_cell_runs;  // and so are all threads that are started from here
    handle_signals(Patience::notebook);
    if (const char* locale = std::setlocale(LC_CTYPE, ""); !locale || std::strcmp(locale, "C") == 0)
        std::setlocale(LC_CTYPE, "C.UTF-8");
    close_standard_input();
    try {
        serve(argv[1]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "causeway-kernel: %s\n", error.what());
        return status_of_error;
    }
    return 0;
}
