// The display of a notebook: what a cell shows becomes messages, in the order in which it was shown.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lua/notebook/outlet.hpp"
#include "lua/notebook/streams.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/script.hpp"

namespace causeway::lua {

class CellDisplay : public Display {
public:
    explicit CellDisplay(Outlet& outlet);

    // A cell begins, and ends: its last value becomes its result unless it is a `silent` one.
    void begin(int count, bool silent);
    void end();

    // The pages of help that the cell has asked for, as one bundle; null where it has asked for none.
    const Outlet::Json& pages() const { return pages_; }

    // The failure of a cell: `sentence` is how the front end shows it, below it is folded where it came from.
    void error(const std::string& name, const Failure& failure, const std::string& sentence);

    // A message from the front end is answered, and end() ends it. What is shown belongs to no cell: only what is kept
    // reaches the front end.
    void begin_message();

    // Between the two what is shown is kept; then all of it becomes one display with this id, or takes the place of the
    // display that has it. Where the work between them fails, error() shows what was kept, and fail_kept() the failure
    // below it, in the same place. Throws Error where something is kept already.
    void begin_keeping(const std::string& id, bool in_place);
    void end_keeping();
    void fail_kept(const Failure& failure);

    // All that was printed so far is on its way when it returns.
    void drain() { streams_.drain(); }

    // One display of the form in which it is given.
    void show(const Outlet::Json& bundle);

    void show(const Rich& value) override;
    void result(const Rich& value) override;
    void page(const Rich& value) override;
    void status(std::string_view line) override;
    void clear(bool wait) override;
    int columns() const override { return 80; }
    int rows() const override { return 30; }
    bool colour() const override { return false; }
    bool pictures() const override { return true; }

private:
    void print(const std::string& name, const std::string& text);
    bool keep(const Outlet::Json& bundle);
    bool keep_text(const std::string& text);
    void show_waiting();
    void end_status();

    Outlet& outlet_;
    std::mutex mutex_;                     // over what follows and the outlet: streams come from a thread of their own
    std::optional<Outlet::Json> waiting_;  // the last value so far, which is the result if nothing is shown after it
    Outlet::Json pages_;
    int count_ = 0;
    bool silent_ = false;
    struct Kept {
        std::string id;
        bool in_place;
        std::vector<Outlet::Json> bundles;
        bool ends_in_stream;
    };
    std::optional<Kept> kept_;
    int statuses_ = 0;     // how many lines of status have been begun, which are told apart by that number
    bool status_ = false;  // one is shown now
    std::chrono::steady_clock::time_point last_status_;
    Streams streams_;  // last, since its thread uses all above
};

// The value in all its forms.
Outlet::Json bundle_of(const Rich& value);

}  // namespace causeway::lua
