// Where values are shown. Only a Display knows whether there is a terminal; a notebook is another one.
#pragma once

#include <string>
#include <string_view>

struct lua_State;

namespace causeway::lua {

// One value in the representations it has; `text` is always there, the others may be empty.
struct Rich {
    std::string text, svg, html;
};

// Where values are shown: a terminal, a notebook.
class Display {
public:
    virtual ~Display() = default;
    virtual void show(const Rich& value) = 0;
    // A value of the entry, which a notebook tells from what the entry shows on its way.
    virtual void result(const Rich& value) { show(value); }
    // What `?name` shows.
    virtual void page(const Rich& value) { show(value); }
    // Takes away what the entry has shown so far, with `wait` when it shows the next thing. What a terminal has shown
    // stays.
    virtual void clear([[maybe_unused]] bool wait) {}
    // A transient line such as a progress bar: replaced by the next one, cleared by an empty one and by show().
    virtual void status(std::string_view line) = 0;
    virtual int columns() const = 0;
    virtual int rows() const = 0;
    virtual bool colour() const = 0;
    // Whether what is written to standard output stands on a terminal, which breaks lines anywhere.
    virtual bool terminal() const { return false; }
    // Whether it shows SVG and HTML, which are made for no other display.
    virtual bool pictures() const { return false; }
};

// Text to standard output; status lines to standard error, where that is a terminal.
class TerminalDisplay : public Display {
public:
    void show(const Rich& value) override;
    void status(std::string_view line) override;
    int columns() const override;
    int rows() const override;
    // A terminal, and neither NO_COLOR is set nor TERM is dumb.
    bool colour() const override;
    bool terminal() const override;

private:
    bool status_shown_ = false;
};

// The text with lines of at most `columns` characters where its words allow that: broken at blanks, a word stays whole.
std::string in_whole_words(std::string_view text, int columns);

// The display of this interpreter; a terminal until another one is set, which must outlive the interpreter.
Display& display(lua_State* L);
void set_display(lua_State* L, Display& display);

// The representations of the value at `index` that its display shows: from the metamethod __rich, else __tostring, else
// as a Lua literal. Errors of the metamethods pass as Lua errors; a picture that cannot be made is said in the text.
Rich rich(lua_State* L, int index);

// What an entry at the prompt has shown: a function such as btime shows its result, which may be the value of the entry
// too and is not shown twice. begin_entry forgets all of it, so that the next entry shows the value again.
void begin_entry(lua_State* L);
bool shown_in_entry(lua_State* L, int index);
// What is shown in the place of a value that the entry wrote to files: "saved as x.svg"; "" of any other.
std::string shown_in_place(lua_State* L, int index);

}  // namespace causeway::lua
