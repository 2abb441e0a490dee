// The program causeway-kernel: a session behind the sockets of xeus, which speaks Jupyter's protocol. All that is known
// of xeus is in this folder.
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <clocale>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <xeus/xcomm.hpp>
#include <xeus/xhistory_manager.hpp>
#include <xeus/xinterpreter.hpp>
#include <xeus/xkernel.hpp>
#include <xeus/xkernel_configuration.hpp>
#include <xeus/xmessage.hpp>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/measure/machine.hpp"
#include "lua/notebook/interrupt_mask.hpp"
#include "lua/notebook/kernel/server.hpp"
#include "lua/notebook/kernel/sockets.hpp"
#include "lua/notebook/parent.hpp"
#include "lua/notebook/session.hpp"
#include "lua/shell/history.hpp"
#include "lua/shell/main_stack.hpp"
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

// Sends an interrupt that was asked for to the thread that made this, again and again while this lives: the first may
// come after that thread has looked for one and before it waits, and would end no wait then.
class Reminder {
public:
    Reminder() {
        const Uninterrupted thread_is_too;
        thread_ = std::jthread([waiting = pthread_self()](const std::stop_token& stop) {
            std::mutex alone;
            std::unique_lock lock(alone);
            std::condition_variable_any told;
            while (!told.wait_for(lock, stop, std::chrono::milliseconds(50), [&] { return stop.stop_requested(); })) {
                if (interrupt::requested()) pthread_kill(waiting, SIGINT);
            }
        });
    }

private:
    std::jthread thread_;
};

// The cells of this session, and the entries and cells before it as one more, for history_request; they are kept in the
// file of the shell. The history of xeus knows neither numbers nor the protocol's patterns.
class Cells : public xeus::xhistory_manager {
public:
    Cells() {
        int line = 0;
        for (const std::string& entry : file_.load()) cells_.push_back({earlier, ++line, entry});
    }

    // The number of the cell that is stored next.
    int number = 0;

private:
    static constexpr int earlier = 1, now = 2;

    struct Cell {
        int session, number;
        std::string code;
    };

    void configure_impl() override {}

    void store_inputs_impl(int, int, const std::string& code, const std::string&) override {
        cells_.push_back({now, number, code});
        file_.add(code);
        if (const std::string note = file_.note(); !note.empty()) std::fprintf(stderr, "%s\n", note.c_str());
    }

    Json get_tail_impl(int n, bool, bool output) const override { return last(n, output, cells_); }

    // From the cell with the number `start` up to, not including, `stop`. Session 0 is this one, negative ones are
    // counted back from it.
    Json get_range_impl(int session, int start, int stop, bool, bool output) const override {
        if (session <= 0) session += now;
        std::vector<Cell> chosen;
        for (const Cell& cell : cells_) {
            if (cell.session == session && cell.number >= start && cell.number < stop) chosen.push_back(cell);
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
            list.push_back(Json::array({cell.session, cell.number, code}));
        }
        return {{"status", "ok"}, {"history", list}};
    }

    History file_;
    std::vector<Cell> cells_;
};

// What the user has answered to the question that waits.
using Answer = std::optional<std::string>;

class Interpreter : public xeus::xinterpreter, public Outlet {
public:
    Interpreter(Cells& cells, Answer& answer) : cells_(cells), answer_(answer), session_(*this) {}

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

    void open_comm(const std::string& id, const std::string& target, const Json& data, const Json& metadata) override {
        const Uninterrupted whole;
        keep_comm(std::make_unique<xeus::xcomm>(comm_manager().target(target), id.c_str()))
            .open(metadata, data, xeus::buffer_sequence());
    }
    void send_comm(const std::string& id, const Json& data) override {
        const Uninterrupted whole;
        const auto comm = comms_.find(id);
        if (comm != comms_.end()) comm->second->send(Json::object(), data, xeus::buffer_sequence());
    }
    std::string ask(const std::string& prompt) override {
        answer_.reset();
        const Reminder of_interrupts;
        while (!answer_) {
            try {
                input_request(prompt, false);
            } catch (const std::exception&) {  // the wait was ended, by a signal
                interrupt::check();
                throw;
            }
            interrupt::check();
        }
        return *answer_;
    }

private:
    static Json transient(const std::string& id) { return id.empty() ? Json::object() : Json{{"display_id", id}}; }

    // Channels that the front end may open: the one by which it asks for all widgets, after a page was loaded anew.
    void configure_impl() override {
        comm_manager().register_comm_target("jupyter.widget", [](xeus::xcomm&&, xeus::xmessage) {});
        comm_manager().register_comm_target("jupyter.widget.control", [this](xeus::xcomm&& comm, xeus::xmessage) {
            keep_comm(std::make_unique<xeus::xcomm>(std::move(comm)));
        });
    }

    // Kept for as long as the kernel lives: xeus knows its channels by their address.
    xeus::xcomm& keep_comm(std::unique_ptr<xeus::xcomm> comm) {
        const std::string id = comm->id().c_str();
        comm->on_message([this, id](const xeus::xmessage& message) {
            answers(message);
            session_.receive(id, message.content().value("data", Json::object()));
        });
        return *(comms_[id] = std::move(comm));
    }

#if XEUS_VERSION_MAJOR < 5
    Json execute_request_impl(int count, const std::string& code, bool silent, bool, Json expressions,
                              bool may_ask) override {
        return execute(count, code, silent, expressions, may_ask);
    }

    // What is published names the request that it answers; xeus knows which one.
    void answers(const xeus::xmessage&) {}
#else
    void execute_request_impl(send_reply_callback reply, int count, const std::string& code,
                              xeus::execute_request_config how, Json expressions) override {
        reply(execute(count, code, how.silent, expressions, how.allow_stdin));
    }

    // What is published names the request that it answers. xeus would name the last cell where a widget has asked.
    void answers(const xeus::xmessage& message) { request_ = {message.header(), message.identities()}; }
    void set_request_context(xeus::xrequest_context request) override { request_ = std::move(request); }
    const xeus::xrequest_context& get_request_context() const noexcept override { return request_; }

    xeus::xrequest_context request_;
#endif

    Json execute(int count, const std::string& code, bool silent, const Json& expressions, bool may_ask) {
        cells_.number = count;
        return session_.execute(code, count, silent, expressions, may_ask);
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
    Answer& answer_;
    std::map<std::string, std::unique_ptr<xeus::xcomm>> comms_;
    Session session_;
};

std::unique_ptr<xeus::xserver> make_server(xeus::xcontext& context, const xeus::xconfiguration& configuration,
                                           Json::error_handler_t handler) {
    return std::make_unique<Server>(make_sockets(context, configuration, handler));
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

// Serves until a front end ends the kernel; xeus 2 leaves the program then.
void serve(const std::string& path) {
    const xeus::xconfiguration configuration = read_connection(path);
    Answer answer;
    auto cells = std::make_unique<Cells>();
    auto interpreter = std::make_unique<Interpreter>(*cells, answer);
    xeus::xkernel kernel(configuration, xeus::get_user_name(), make_context(), std::move(interpreter), make_server,
                         std::move(cells), nullptr, xeus::make_null_debugger, Json::object(),
                         Json::error_handler_t::replace);
    auto& server = dynamic_cast<Server&>(kernel.get_server());
    server.register_stdin_listener([&](const xeus::xmessage& message) {
        if (server.answers_question(message)) answer = message.content().value("value", "");
    });
    end_with_the_server();
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
    take_main_stack();
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
