// Lines from libedit, whose licence asks for its notice alone, by its own interface. The only file that knows libedit.
#include <histedit.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cwchar>
#include <exception>
#include <utility>

#include "core/base/interrupt.hpp"
#include "lua/shell/editor/tab.hpp"
#include "lua/shell/editor/terminal.hpp"

namespace causeway::lua {
namespace {

// A terminal that knows bracketed paste says where a pasted text begins and ends.
constexpr const char* paste_on = "\033[?2004h";
constexpr const char* paste_off = "\033[?2004l";
const std::wstring end_of_paste = L"\033[201~";

// Of text in UTF-8.
int characters(const std::string& text) {
    return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The candidates in columns below the line, column after column.
void list_candidates(const std::vector<std::string>& words, int width) {
    std::size_t longest = 0;
    for (const auto& word : words) longest = std::max(longest, word.size());
    const std::size_t columns = std::max<std::size_t>(1, static_cast<std::size_t>(width) / (longest + 2));
    const std::size_t rows = (words.size() + columns - 1) / columns;
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t i = row; i < words.size(); i += rows)
            std::printf("%s%-*s", i == row ? "\n" : "  ", i + rows < words.size() ? static_cast<int>(longest) : 0,
                        words[i].c_str());
    }
    std::putchar('\n');
}

class LibeditReader : public TerminalReader {
public:
    explicit LibeditReader(Host host)
        : TerminalReader(std::move(host)),
          editor_(el_init("causeway", stdin, stdout, stderr)),
          entries_(history_init()) {
        HistEvent event;
        history(entries_, &event, H_SETSIZE, 1 << 20);  // how many there are is for history_ to say
        for (const auto& entry : history_.load()) recall(entry);
        el_set(editor_, EL_CLIENTDATA, this);
        el_set(editor_, EL_SIGNAL, 0);
        el_set(editor_, EL_EDITOR, "emacs");
        el_set(editor_, EL_HIST, history, entries_);
        el_set(editor_, EL_PROMPT_ESC, prompt_of, '\001');
        el_set(editor_, EL_GETCFN, read_character);
        add_functions();
        const char* const bindings[][2] = {
            {"^I", "causeway-complete"},
            {"\\e[200~", "causeway-paste"},
            // The key that Ctrl-C becomes, and the one that would quote it.
            {"^@", "ed-move-to-end"},
            {"^V", "ed-unassigned"},
            {"\\e[H", "ed-move-to-beg"},
            {"\\e[F", "ed-move-to-end"},
            {"\\e[3~", "ed-delete-next-char"},
            {"\\e[1;5C", "em-next-word"},
            {"\\e[1;5D", "ed-prev-word"},
        };
        for (const auto& [key, action] : bindings) el_set(editor_, EL_BIND, key, action, nullptr);
    }

    ~LibeditReader() override {
        el_end(editor_);
        history_end(entries_);
    }

    Result read(const std::string& prompt, std::string& line) override {
        const Signals signals(*this);
        prompt_ = prompt;
        std::replace(prompt_.begin(), prompt_.end(), '\002', '\001');  // one mark for both ends
        keys_after_interruption_ = 2;
        int length = 0;
        el_set(editor_, EL_PREP_TERM, 1);  // before the prompt: the terminal must not show what is typed from there on
        std::fputs(paste_on, stdout);
        const char* text = el_gets(editor_, &length);
        std::fputs(paste_off, stdout);
        const bool stopped = interrupt::requested();
        if (stopped || !text || length <= 0) {
            std::fputs(stopped ? "^C\n" : "\n", stdout);
            std::fflush(stdout);
            return stopped ? Result::interrupted : Result::end;
        }
        line.assign(text, static_cast<std::size_t>(length - 1));  // without the end of the line
        std::fflush(stdout);
        return Result::line;
    }

private:
    // libedit copies what it is given here and never frees the copies, which a sanitizer is not to report.
    void add_functions() {
#ifdef __SANITIZE_ADDRESS__
        const __lsan::ScopedDisabler not_ours;
#endif
        el_set(editor_, EL_ADDFN, "causeway-complete", "completes a name", complete_here);
        el_set(editor_, EL_ADDFN, "causeway-paste", "inserts what is pasted", paste_here);
    }

    static LibeditReader& self(EditLine* editor) {
        void* reader = nullptr;
        el_get(editor, EL_CLIENTDATA, &reader);
        return *static_cast<LibeditReader*>(reader);
    }

    static char* prompt_of(EditLine* editor) { return self(editor).prompt_.data(); }

    // A character of one to four bytes. After Ctrl-C two keys that move to the end of the line, of which a search, a
    // paste or an unfinished key takes one, and then the end of the input, with which the line is left.
    static int read_character(EditLine* editor, wchar_t* character) {
        LibeditReader& reader = self(editor);
        std::mbstate_t state{};
        *character = 0;
        for (;;) {
            const int key = reader.next_key();
            if (key < 0) return interrupt::requested() && reader.keys_after_interruption_-- > 0 ? 1 : -1;
            const char byte = static_cast<char>(key);
            const std::size_t taken = std::mbrtowc(character, &byte, 1, &state);
            if (taken <= 1) return 1;
            if (taken == static_cast<std::size_t>(-1)) state = {};  // no character begins so: forgotten
        }
    }

    // What completes may run out of memory, which is not libedit's to hear.
    static unsigned char complete_here(EditLine* editor, int) try {
        const LineInfo* line = el_line(editor);
        const std::string before(line->buffer, line->cursor);
        const Tab tab = press_tab(self(editor).host_.completer, before);
        if (tab.inserts) {
            el_deletestr(editor, characters(before.substr(tab.begin)));
            el_insertstr(editor, tab.text.c_str());
            return CC_REFRESH;
        }
        if (tab.candidates.empty()) return CC_ERROR;
        int width = 0;
        el_get(editor, EL_GETTC, "co", &width, nullptr);
        list_candidates(tab.candidates, width);
        return CC_REDISPLAY;
    } catch (const std::exception&) {
        return CC_ERROR;
    }

    // Everything up to the end of the paste is text, ends of lines and tabs too.
    static unsigned char paste_here(EditLine* editor, int) try {
        std::wstring pasted;
        for (wchar_t character; el_wgetc(editor, &character) == 1 && character != 0;) {
            pasted += character == L'\r' ? L'\n' : character;
            if (pasted.size() >= end_of_paste.size() &&
                pasted.compare(pasted.size() - end_of_paste.size(), end_of_paste.size(), end_of_paste) == 0) {
                pasted.resize(pasted.size() - end_of_paste.size());
                break;
            }
        }
        if (!pasted.empty()) el_winsertstr(editor, pasted.c_str());
        return CC_REFRESH;
    } catch (const std::exception&) {
        return CC_ERROR;
    }

    void recall(const std::string& entry) override {
        HistEvent event;
        history(entries_, &event, H_ENTER, entry.c_str());
    }
    void resize() override { el_resize(editor_); }
    void give_terminal_back() override {
        std::fputs(paste_off, stdout);
        std::fflush(stdout);
        el_set(editor_, EL_PREP_TERM, 0);
    }
    void take_terminal() override {
        std::fputs(paste_on, stdout);
        el_set(editor_, EL_PREP_TERM, 1);
        el_set(editor_, EL_REFRESH);
    }

    EditLine* editor_;
    ::History* entries_;
    std::string prompt_;
    int keys_after_interruption_ = 0;
};

}  // namespace

std::unique_ptr<LineReader> open_line_editor(Host host) { return std::make_unique<LibeditReader>(std::move(host)); }

}  // namespace causeway::lua
