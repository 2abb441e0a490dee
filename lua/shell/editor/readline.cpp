// Lines from GNU Readline by its plain call: of its callback interface a key in some thousands of random ones, arriving
// faster than they are read, ended the shell (8.2). Signals and waiting stay ours. The only file that knows Readline,
// whose licence, the GPL, is that of a program that is passed on with it.
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
    explicit ReadlineReader(Host host) : TerminalReader(std::move(host)) {
        reading_ = this;
        rl_readline_name = "causeway";
        rl_catch_signals = 0;
        rl_catch_sigwinch = 0;
        rl_change_environment = 0;
        rl_bind_key('\t', complete_here);
        rl_getc_function = read_key;
        rl_prep_term_function = prepare_terminal;
        rl_deprep_term_function = restore_terminal;
        using_history();
        for (const auto& entry : history_.load()) add_history(entry.c_str());
    }

    Result read(const std::string& prompt, std::string& line) override {
        const Signals signals(*this);
        interruption_told_ = searching_ = false;
        const std::unique_ptr<char, decltype(&std::free)> read(readline(prompt.c_str()), &std::free);
        const bool interrupted = interrupt::requested();
        if (interrupted || !read) {
            std::fputc('\n', stdout);
            std::fflush(stdout);
            return interrupted ? Result::interrupted : Result::end;
        }
        line = read.get();
        return Result::line;
    }

private:
    // How often a key is repeated at most: nothing hears Ctrl-C meanwhile.
    static constexpr int largest_count = 1000;
    static inline ReadlineReader* reading_ = nullptr;  // readline's callbacks carry no context

    static int complete_here(int, int) {
        const Tab tab =
            press_tab(reading_->host_.completer, std::string(rl_line_buffer, static_cast<std::size_t>(rl_point)));
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

    // Where a search has ended, whose message stood in the place of the prompt, readline leaves letters of it behind a
    // prompt that has colours (8.2): the line is drawn anew before the next key.
    void clear_after_search() {
        const bool searching = RL_ISSTATE(RL_STATE_ISEARCH) != 0;
        if (!std::exchange(searching_, searching) || searching) return;
        rl_clear_visible_line();
        rl_forced_update_display();
    }

    // After Ctrl-C readline gives up the line where it asks for the next key. Where it asks for the rest of one, of a
    // search or of a paste it gets a key that does nothing, and the end of the input if it asks on.
    static int read_key(FILE*) {
        rl_numeric_arg = std::clamp(rl_numeric_arg, -largest_count, largest_count);
        reading_->clear_after_search();
        if (const int key = reading_->next_key(); key >= 0) return key;
        if (!interrupt::requested()) return EOF;
        if (!RL_ISSTATE(RL_STATE_READCMD)) return std::exchange(reading_->interruption_told_, true) ? EOF : 0;
        leave_line();
        return READERR;
    }

    // Leaves the line as it stands on the screen, and nothing of what was typed for the next one.
    static void leave_line() {
        rl_point = rl_end;
        rl_redisplay();
        std::fputs("^C", rl_outstream);
        rl_undo_list = nullptr;  // left behind: an entry of the history may hold it too, and readline frees both
        rl_free_line_state();
    }

    // The key behind it as it is (Ctrl-V): readline's own takes a Ctrl-C for such a key too.
    static int insert_quoted(int count, int) {
        const int key = rl_read_key();
        return key < 0 ? 1 : rl_insert(count, key);
    }

    // Sets the keys of the terminal, which are bound anew each time, and those of ~/.inputrc to what we have instead.
    static void prepare_terminal(int with_meta_key) {
        rl_prep_terminal(with_meta_key);
        for (const Keymap map : {emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap}) {
            for (int key = 0; key < KEYMAP_SIZE; ++key) {
                if (map[key].function == rl_quoted_insert) map[key].function = insert_quoted;
            }
        }
    }

    // Without the end of the line that readline writes after the end of the input on some terminals alone.
    static void restore_terminal() {
        rl_eof_found = 0;
        rl_deprep_terminal();
    }

    void recall(const std::string& entry) override { add_history(entry.c_str()); }
    void resize() override { rl_resize_terminal(); }
    void give_terminal_back() override { rl_deprep_terminal(); }
    void take_terminal() override {
        prepare_terminal(1);
        rl_forced_update_display();
    }

    bool interruption_told_ = false, searching_ = false;
};

}  // namespace

std::unique_ptr<LineReader> open_line_editor(Host host) { return std::make_unique<ReadlineReader>(std::move(host)); }

}  // namespace causeway::lua
