// Values wait until it is known whether something follows them; all else goes out as it comes.
#include "lua/notebook/cell_display.hpp"

#include <exception>

namespace causeway::lua {
namespace {

// A progress bar that moves more often is only traffic.
constexpr std::chrono::milliseconds between_statuses{50};

// Jupyter's style sheet sets the cells of tables to the right unless they say otherwise.
std::string with_cells_to_the_left(std::string html) {
    for (const std::string cell : {"<td", "<th"}) {
        for (std::size_t at = html.find(cell); at != std::string::npos; at = html.find(cell, at + 1)) {
            const std::size_t end = html.find('>', at);
            const std::string tag = html.substr(at, end - at);
            if (tag != cell && tag != cell + " class=\"long\"") continue;  // <thead>, and cells with a style
            html.insert(at + tag.size(), " style=\"text-align:left\"");
        }
    }
    return html;
}

std::string status_id(int number) { return "causeway-status-" + std::to_string(number); }

}  // namespace

Outlet::Json bundle_of(const Rich& value) {
    std::string text = value.text;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    Outlet::Json bundle = {{"text/plain", text}};
    if (!value.svg.empty()) bundle["image/svg+xml"] = value.svg;
    if (!value.html.empty()) bundle["text/html"] = with_cells_to_the_left(value.html);
    return bundle;
}

CellDisplay::CellDisplay(Outlet& outlet)
    : outlet_(outlet), streams_([this](const std::string& name, const std::string& text) { print(name, text); }) {}

void CellDisplay::begin(int count, bool silent) {
    count_ = count;
    silent_ = silent;
    pages_ = nullptr;
    waiting_.reset();
    streams_.begin();
}

void CellDisplay::end() {
    streams_.end();
    const std::lock_guard lock(mutex_);
    end_status();
    if (waiting_ && !silent_) outlet_.result(count_, *waiting_);
    waiting_.reset();
}

void CellDisplay::error(const std::string& name, const std::string& value, const std::vector<std::string>& lines) {
    streams_.drain();
    const std::lock_guard lock(mutex_);
    show_waiting();
    end_status();
    outlet_.error(name, value, lines);
}

void CellDisplay::show(const Rich& value) {
    streams_.drain();
    const std::lock_guard lock(mutex_);
    show_waiting();
    end_status();
    outlet_.show(bundle_of(value), "");
}

void CellDisplay::result(const Rich& value) {
    streams_.drain();
    const std::lock_guard lock(mutex_);
    show_waiting();
    end_status();
    waiting_ = bundle_of(value);
}

void CellDisplay::page(const Rich& value) {
    const Outlet::Json bundle = bundle_of(value);
    if (pages_.is_null()) {
        pages_ = bundle;
        return;
    }
    // A front end shows one page only, so that of two in a cell is one under the other.
    const bool html = pages_.contains("text/html") && bundle.contains("text/html");
    pages_["text/plain"] = pages_["text/plain"].get<std::string>() + "\n\n" + bundle["text/plain"].get<std::string>();
    if (html) pages_["text/html"] = pages_["text/html"].get<std::string>() + bundle["text/html"].get<std::string>();
    else pages_.erase("text/html");
}

void CellDisplay::status(std::string_view line) {
    streams_.drain();
    const std::lock_guard lock(mutex_);
    if (line.empty()) {
        end_status();
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (status_ && now - last_status_ < between_statuses) return;
    show_waiting();
    last_status_ = now;
    const Outlet::Json bundle = {{"text/plain", std::string(line)}};
    if (status_) outlet_.update(bundle, status_id(statuses_));
    else outlet_.show(bundle, status_id(++statuses_));
    status_ = true;
}

void CellDisplay::clear(bool wait) {
    streams_.drain();
    const std::lock_guard lock(mutex_);
    waiting_.reset();
    status_ = false;
    outlet_.clear(wait);
}

// With the lock of the streams held, which no function above holds when it takes the other.
void CellDisplay::print(const std::string& name, const std::string& text) {
    const std::lock_guard lock(mutex_);
    try {
        show_waiting();
        outlet_.stream(name, text);
    } catch (const std::exception&) {  // nobody is left to be told
    }
}

void CellDisplay::show_waiting() {
    if (waiting_) outlet_.show(*waiting_, "");
    waiting_.reset();
}

// The line of status is no output to keep: an empty one takes its place.
void CellDisplay::end_status() {
    if (status_) outlet_.update({{"text/plain", ""}}, status_id(statuses_));
    status_ = false;
}

}  // namespace causeway::lua
