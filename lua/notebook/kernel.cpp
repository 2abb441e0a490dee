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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <xeus/xauthentication.hpp>
#include <xeus/xcomm.hpp>
#include <xeus/xhistory_manager.hpp>
#include <xeus/xinterpreter.hpp>
#include <xeus/xkernel.hpp>
#include <xeus/xkernel_configuration.hpp>
#include <xeus/xmessage.hpp>
#include <xeus/xserver_shell_main.hpp>
#include <xeus/xzmq_serializer.hpp>
#include <zmq.hpp>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/measure/machine.hpp"
#include "lua/notebook/interrupt_mask.hpp"
#include "lua/notebook/parent.hpp"
#include "lua/notebook/publisher.hpp"
#include "lua/notebook/session.hpp"
#include "lua/shell/history.hpp"
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
            session_.receive(id, message.content().value("data", Json::object()));
        });
        return *(comms_[id] = std::move(comm));
    }

    Json execute_request_impl(int count, const std::string& code, bool silent, bool, Json expressions,
                              bool may_ask) override {
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

std::string end_point_of(const xeus::xconfiguration& c, const std::string& port) {
    return c.m_transport + "://" + c.m_ip + (c.m_transport == "tcp" ? ":" : "-") + port;
}

// Without the port of what is published, which xeus is not to take: it takes one that nobody listens to.
xeus::xconfiguration without_publisher(xeus::xconfiguration c) {
    c.m_iopub_port.clear();
    return c;
}

// The server of xeus with a publisher of its own. After an error the requests that wait are answered as "aborted": xeus
// answers without saying that it is busy and idle, and front ends go on waiting for those cells.
class Server : public xeus::xserver_shell_main {
public:
    Server(zmq::context_t& context, const xeus::xconfiguration& configuration, Json::error_handler_t handler)
        : xserver_shell_main(context, without_publisher(configuration), handler),
          handler_(handler),
          signatures_(xeus::make_xauthentication(configuration.m_signature_scheme, configuration.m_key)),
          publisher_(context, end_point_of(configuration, configuration.m_iopub_port),
                     [this](const std::string& topic) { return greeting(topic); }) {}

    // Whether this is an answer to the last question. One that an interrupt has ended may be answered still, and not
    // all front ends say which one they answer.
    bool answers_question(const xeus::xmessage& message) const {
        const std::string question = message.parent_header().value("msg_id", "");
        return question.empty() || question == question_;
    }

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

    void send_stdin_impl(xeus::xmessage message) override {
        question_ = message.header().value("msg_id", "");
        const Json content = {{"prompt", message.content().value("prompt", "")}, {"password", false}};  // xeus: "pwd"
        xserver_shell_main::send_stdin_impl(xeus::xmessage(message.identities(), Json(message.header()),
                                                           Json(message.parent_header()), Json::object(), content, {}));
    }

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

    std::string question_;  // the id of the last one
    Json::error_handler_t handler_;
    std::unique_ptr<xeus::xauthentication> signatures_;
    Publisher publisher_;
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
    Answer answer;
    auto cells = std::make_unique<Cells>();
    auto interpreter = std::make_unique<Interpreter>(*cells, answer);
    xeus::xkernel kernel(configuration, xeus::get_user_name(), xeus::make_context<zmq::context_t>(),
                         std::move(interpreter), make_server, std::move(cells), nullptr, xeus::make_null_debugger,
                         Json::object(), Json::error_handler_t::replace);
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
