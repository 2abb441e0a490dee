// Lines from GNU Readline through its callback interface, which leaves signals and waiting to us. The only file that
// knows Readline, whose licence, the GPL, is that of a program that is passed on with it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

// Order matters: readline's header uses FILE without including it.
#include <readline/history.h>
#include <readline/readline.h>

#include "core/base/interrupt.hpp"
#include "lua/shell/editor/tab.hpp"
#include "lua/shell/editor/terminal.hpp"

namespace causeway::lua {
namespace {

// The candidates in columns below the line, as readline shows its own.
void list_candidates(const std::vector<std::string>& words) {
    std::vector<char*> list{const_cast<char*>("")};
    std::size_t longest = 0;
    for (const auto& word : words) {
        list.push_back(const_cast<char*>(word.c_str()));
        longest = std::max(longest, word.size());
    }
    list.push_back(nullptr);
    std::fputc('\n', rl_outstream);
    rl_display_match_list(list.data(), static_cast<int>(words.size()), static_cast<int>(longest));
    rl_forced_update_display();
}

class ReadlineReader : public TerminalReader {
public:
    explicit ReadlineReader(Completer completer) : TerminalReader(std::move(completer)) {
        reading_ = this;
        rl_readline_name = "causeway";
        rl_catch_signals = 0;
        rl_catch_sigwinch = 0;
        rl_change_environment = 0;
        rl_bind_key('\t', complete_here);
        rl_getc_function = read_key;
        // With callbacks readline 8.2 dies where the character that is searched for is Esc and another key follows at
        // once.
        for (const Keymap map : {emacs_standard_keymap, emacs_meta_keymap}) {
            rl_unbind_function_in_map(rl_char_search, map);
            rl_unbind_function_in_map(rl_backward_char_search, map);
        }
        using_history();
        for (const auto& entry : history_.load()) add_history(entry.c_str());
    }

    Result read(const std::string& prompt, std::string& line) override {
        const Signals signals(*this);
        done_ = ended_ = interruption_told_ = false;
        rl_callback_handler_install(prompt.c_str(), take_line);
        while (!done_ && wait_for_key()) rl_callback_read_char();
        if (interrupt::requested()) return abandon();
        if (ended_) {
            std::fputc('\n', stdout);
            std::fflush(stdout);
            return Result::end;
        }
        line = line_;
        return Result::line;
    }

private:
    // How often a key is repeated at most: nothing hears Ctrl-C meanwhile.
    static constexpr int largest_count = 1000;
    static inline ReadlineReader* reading_ = nullptr;  // readline's callbacks carry no context

    static void take_line(char* line) {
        rl_callback_handler_remove();
        reading_->done_ = true;
        reading_->ended_ = line == nullptr;
        reading_->line_ = line ? line : "";
        std::free(line);
    }

    static int complete_here(int, int) {
        const Tab tab =
            press_tab(reading_->completer_, std::string(rl_line_buffer, static_cast<std::size_t>(rl_point)));
        if (tab.inserts) {
            rl_begin_undo_group();
            rl_delete_text(static_cast<int>(tab.begin), rl_point);
            rl_point = static_cast<int>(tab.begin);
            rl_insert_text(tab.text.c_str());
            rl_end_undo_group();
        } else if (!tab.candidates.empty()) {
            list_candidates(tab.candidates);
        } else {
            rl_ding();
        }
        return 0;
    }

    // After Ctrl-C readline gets a key that does nothing, and the end of the input where it asks on, as it does inside
    // a paste.
    static int read_key(FILE*) {
        rl_numeric_arg = std::clamp(rl_numeric_arg, -largest_count, largest_count);
        if (const int key = reading_->next_key(); key >= 0) return key;
        if (!interrupt::requested()) return EOF;
        return std::exchange(reading_->interruption_told_, true) ? EOF : 0;
    }

    // Ctrl-C: leaves the line as it stands on the screen, a search for it ended, and forgets it.
    static Result abandon() {
        rl_callback_sigcleanup();
        rl_point = rl_end;
        rl_redisplay();
        std::fputs("^C", rl_outstream);
        std::fflush(rl_outstream);
        rl_free_line_state();
        rl_eof_found = 0;  // which readline was told inside a paste
        rl_callback_handler_remove();
        std::fputc('\n', stdout);
        std::fflush(stdout);
        return Result::interrupted;
    }

    void recall(const std::string& entry) override { add_history(entry.c_str()); }
    void resize() override { rl_resize_terminal(); }
    void give_terminal_back() override { rl_deprep_terminal(); }
    void take_terminal() override {
        rl_prep_terminal(1);
        rl_forced_update_display();
    }

    bool done_ = false, ended_ = false, interruption_told_ = false;
    std::string line_;
};

}  // namespace

std::unique_ptr<LineReader> open_line_editor(Completer completer) {
    return std::make_unique<ReadlineReader>(std::move(completer));
}

}  // namespace causeway::lua
