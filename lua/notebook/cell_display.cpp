// Values wait until it is known whether something follows them; all else goes out as it comes, or is kept.
#include "lua/notebook/cell_display.hpp"

#include <cctype>
#include <cstdio>
#include <exception>
#include <utility>

#include "core/base/error.hpp"

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

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '<') out += "&lt;";
        else if (c == '&') out += "&amp;";
        else out += c;
    }
    return out;
}

// A picture in a page, as the value of an image's `src`.
std::string as_address(const std::string& svg) {
    std::string out = "data:image/svg+xml,";
    for (const char c : svg) {
        char code[4];
        if (std::isalnum(static_cast<unsigned char>(c))) out += c;
        else out.append(code, static_cast<std::size_t>(std::snprintf(code, sizeof code, "%%%02X", c & 0xFF)));
    }
    return out;
}

std::string html_of(const Outlet::Json& bundle) {
    const auto field = [&](const char* name) { return bundle.value(name, std::string()); };
    if (bundle.contains("text/html")) return field("text/html");
    if (bundle.contains("image/svg+xml")) return "<img src=\"" + as_address(field("image/svg+xml")) + "\">";
    return "<pre>" + escaped(field("text/plain")) + "</pre>";
}

// What several displays show, as one.
Outlet::Json in_one(const std::vector<Outlet::Json>& bundles) {
    if (bundles.size() == 1) return bundles[0];
    std::string text, html;
    bool only_text = true;
    for (const Outlet::Json& bundle : bundles) {
        if (!text.empty() && text.back() != '\n') text += '\n';
        text += bundle.value("text/plain", std::string());
        html += html_of(bundle) + "\n";
        only_text = only_text && bundle.size() == 1;
    }
    Outlet::Json all = {{"text/plain", text}};
    if (!only_text) all["text/html"] = html;
    return all;
}

// Where a failure came from, to be unfolded.
Outlet::Json folded(const std::string& traceback) {
    return {
        {"text/plain", traceback},
        {"text/html", "<details><summary>where it came from</summary><pre>" + escaped(traceback) + "</pre></details>"}};
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
    end_keeping();
    streams_.end();
    const std::lock_guard lock(mutex_);
    end_status();
    if (waiting_ && !silent_) outlet_.result(count_, *waiting_);
    waiting_.reset();
}

void CellDisplay::error(const std::string& name, const Failure& failure, const std::string& sentence) {
    end_keeping();
    streams_.drain();
    const std::lock_guard lock(mutex_);
    show_waiting();
    end_status();
    const bool several = failure.traceback.find('\n') != std::string::npos;
    std::vector<std::string> lines = {sentence};
    if (!several && !failure.traceback.empty()) lines.push_back("  " + failure.traceback);
    outlet_.error(name, failure.message, lines);
    if (several) outlet_.show(folded(failure.traceback), "");
}

void CellDisplay::show(const Rich& value) { show(bundle_of(value)); }

void CellDisplay::show(const Outlet::Json& bundle) {
    streams_.drain();
    const std::lock_guard lock(mutex_);
    if (keep(bundle)) return;
    show_waiting();
    end_status();
    outlet_.show(bundle, "");
}

void CellDisplay::result(const Rich& value) {
    streams_.drain();
    const std::lock_guard lock(mutex_);
    if (keep(bundle_of(value))) return;
    show_waiting();
    end_status();
    waiting_ = bundle_of(value);
}

void CellDisplay::begin_message() {
    silent_ = true;
    pages_ = nullptr;
    waiting_.reset();
    streams_.begin();
}

void CellDisplay::begin_keeping(const std::string& id, bool in_place) {
    if (kept_) throw Error("a function of interact was called by another one, expected one at a time");
    streams_.drain();
    const std::lock_guard lock(mutex_);
    show_waiting();
    end_status();
    kept_ = Kept{id, in_place, {}, false};
}

void CellDisplay::end_keeping() {
    if (!kept_) return;
    streams_.drain();
    const std::lock_guard lock(mutex_);
    const Kept all = *std::exchange(kept_, std::nullopt);
    const Outlet::Json bundle = all.bundles.empty() ? Outlet::Json{{"text/plain", ""}} : in_one(all.bundles);
    if (all.in_place) outlet_.update(bundle, all.id);
    else outlet_.show(bundle, all.id);
}

void CellDisplay::fail_kept(const Failure& failure) {
    const std::string text = failure.interrupted ? "interrupted" : "error: " + failure.message;
    if (!kept_) {
        std::fprintf(stderr, "%s\n", text.c_str());
        return;
    }
    streams_.drain();
    {
        const std::lock_guard lock(mutex_);
        keep({{"text/plain", text}, {"text/html", "<pre>" + escaped(text) + "</pre>"}});
        if (!failure.traceback.empty()) keep(folded(failure.traceback));
    }
    end_keeping();
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
    if (kept_) return;
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
    if (kept_) {
        kept_->bundles.clear();
        return;
    }
    waiting_.reset();
    status_ = false;
    outlet_.clear(wait);
}

// With the lock of the streams held, which no function above holds when it takes the other.
void CellDisplay::print(const std::string& name, const std::string& text) {
    const std::lock_guard lock(mutex_);
    try {
        if (keep_text(text)) return;
        show_waiting();
        outlet_.stream(name, text);
    } catch (const std::exception&) {  // nobody is left to be told
    }
}

// With the lock held, where something is kept.
bool CellDisplay::keep(const Outlet::Json& bundle) {
    if (!kept_) return false;
    kept_->bundles.push_back(bundle);
    kept_->ends_in_stream = false;
    return true;
}

// The same for a piece of a stream, whose lines may go on from one piece to the next.
bool CellDisplay::keep_text(const std::string& text) {
    if (!kept_) return false;
    if (kept_->ends_in_stream) {
        auto& before = kept_->bundles.back()["text/plain"];
        before = before.get<std::string>() + text;
        return true;
    }
    keep({{"text/plain", text}});
    kept_->ends_in_stream = true;
    return true;
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
