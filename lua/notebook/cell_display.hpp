// The display of a notebook: what a cell shows becomes messages, in the order in which it was shown.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "lua/notebook/outlet.hpp"
#include "lua/notebook/streams.hpp"
#include "lua/shell/display.hpp"

namespace causeway::lua {

class CellDisplay : public Display {
public:
    explicit CellDisplay(Outlet& outlet);

    // A cell begins, and ends: its last value becomes its result unless it is a `silent` one.
    void begin(int count, bool silent);
    void end();

    // The pages of help that the cell has asked for, as one bundle; null where it has asked for none.
    const Outlet::Json& pages() const { return pages_; }
    void error(const std::string& name, const std::string& value, const std::vector<std::string>& lines);

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
    void show_waiting();
    void end_status();

    Outlet& outlet_;
    std::mutex mutex_;                     // over what follows and the outlet: streams come from a thread of their own
    std::optional<Outlet::Json> waiting_;  // the last value so far, which is the result if nothing is shown after it
    Outlet::Json pages_;
    int count_ = 0;
    bool silent_ = false;
    int statuses_ = 0;     // how many lines of status have been begun, which are told apart by that number
    bool status_ = false;  // one is shown now
    std::chrono::steady_clock::time_point last_status_;
    Streams streams_;  // last, since its thread uses all above
};

// The value in all its forms.
Outlet::Json bundle_of(const Rich& value);

}  // namespace causeway::lua
