// What every line editor of a terminal needs: keys, signals, and the history of earlier runs.
#pragma once

#include <signal.h>

#include <string>

#include "lua/shell/editor/editor.hpp"
#include "lua/shell/history.hpp"

namespace causeway::lua {

// Stops the process as Ctrl-Z does, with the signals outside of an editor, and returns when it goes on.
void stop_process(const sigset_t& outside);

class TerminalReader : public LineReader {
public:
    void remember(const std::string& entry) override;

protected:
    explicit TerminalReader(Host host);
    ~TerminalReader() override;

    // While a line is read: signals arrive only while we wait, and those of the terminal are ours.
    class Signals {
    public:
        explicit Signals(TerminalReader& reader);
        ~Signals();
        Signals(const Signals&) = delete;
        Signals& operator=(const Signals&) = delete;

    private:
        TerminalReader& reader_;
        struct sigaction resize_before_, pause_before_;
    };

    // Waits for a key and does what other signals ask for meanwhile. False after Ctrl-C.
    bool wait_for_key();
    // The next byte that is typed; -1 at the end of the input and after Ctrl-C.
    int next_key();

    virtual void recall(const std::string& entry) = 0;  // one more entry that the arrow keys lead to
    virtual void resize() = 0;                          // the terminal has another size
    virtual void give_terminal_back() = 0;              // as it was, before the program stops
    virtual void take_terminal() = 0;                   // and shows the line again

    Host host_;
    History history_;

private:
    void pause_program();
    [[noreturn]] void leave_without_session();

    sigset_t outside_;  // the signal mask while we wait
    int keys_;          // where keys are read without waiting
};

}  // namespace causeway::lua
