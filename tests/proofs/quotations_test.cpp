// Every quotation of proofs/*.md against the excerpts in proofs/quotations, and both against the documents.
#include "tests/proofs/quotations.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::proofs;

namespace {

const std::vector<std::string> names{"fleet", "leet", "gates", "tpu", "tree"};

// Files of a folder of the project whose names end so, in order.
std::vector<std::string> files(const std::string& folder, const std::string& ending) {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/" + folder))
        if (entry.path().string().ends_with(ending)) out.push_back(folder + "/" + entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
}

std::string text_of(const std::string& file) { return testing::read_bytes(source_dir() + "/" + file); }

const std::vector<Excerpt>& excerpts_of(const std::string& document) {
    static const std::vector<Excerpt> none;
    static const auto all = [] {
        std::map<std::string, std::vector<Excerpt>> out;
        for (const auto& name : names) out[name] = excerpts(text_of("proofs/quotations/" + name + ".txt"));
        return out;
    }();
    const auto found = all.find(document);
    return found == all.end() ? none : found->second;
}

// The text form of a document in the folder that CAUSEWAY_PAPERS names: fleet*.txt or 000*.txt, and so on.
std::string document_text(const std::string& folder, const std::string& name) {
    const auto number = std::find(names.begin(), names.end(), name) - names.begin();
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string file = entry.path().filename().string();
        if (file.ends_with(".txt") && (file.starts_with(name) || file.starts_with("00" + std::to_string(number))))
            return testing::read_bytes(entry.path().string());
    }
    fail(folder, ": no text of ", name);
}

Quotation quoted(const std::string& markdown) {
    const auto all = quotations(markdown);
    REQUIRE(all.size() == 1);
    return all[0];
}

}  // namespace

TEST_CASE("quotations: all of proofs/ stand in the excerpts", "[proofs][quotations]") {
    std::string faults;
    std::size_t count = 0;
    for (const auto& file : files("proofs", ".md"))
        for (const Quotation& q : quotations(text_of(file))) {
            ++count;
            const std::string wrong = fault(q, excerpts_of(q.document));
            if (!wrong.empty()) faults += sentence(file, ":", q.line, ": \"", q.text, "\" ", wrong, "\n");
        }
    INFO(faults);
    CHECK(faults.empty());
    CHECK(count >= 50);
}

TEST_CASE("quotations: no excerpt that nothing quotes", "[proofs][quotations]") {
    std::string idle;
    for (const auto& name : names)
        for (const Excerpt& e : excerpts_of(name)) {
            bool used = false;
            for (const auto& file : files("proofs", ".md"))
                for (const Quotation& q : quotations(text_of(file)))
                    used = used || (q.document == name && fault(q, {e}).empty());
            if (!used) idle += sentence(name, " ", e.place, ", line ", e.line, "\n");
        }
    INFO(idle);
    CHECK(idle.empty());
}

TEST_CASE("quotations: what the rows of the checks quote stands in an excerpt", "[proofs][quotations]") {
    static const std::regex literal(R"re(\\"((?:[^"\\]|\\(?!"))*)\\")re");
    std::string faults;
    for (const auto& file : files("tests/proofs", "_test.cpp")) {
        if (file.ends_with("quotations_test.cpp")) continue;
        const std::string text = text_of(file);
        for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at) {
            const Quotation q{0, "any", "", "… " + (*at)[1].str() + " …"};
            bool stands = false;
            for (const auto& name : names)
                for (Excerpt e : excerpts_of(name)) e.place = "", stands = stands || fault(q, {e}).empty();
            if (!stands) faults += file + ": \"" + (*at)[1].str() + "\"\n";
        }
    }
    INFO(faults);
    CHECK(faults.empty());
}

TEST_CASE("quotations: excerpts and quotations stand in the documents", "[proofs][quotations]") {
    const char* folder = std::getenv("CAUSEWAY_PAPERS");
    if (!folder || !*folder)
        return test::skip("the quotations against the documents", "CAUSEWAY_PAPERS names no folder with their text");
    std::string faults;
    for (const auto& name : names) {
        const std::string document = document_text(folder, name);
        for (const Excerpt& e : excerpts_of(name))
            if (!stands_in(document, e.text, e.line))
                faults += sentence("proofs/quotations/", name, ".txt: ", e.place, ", line ", e.line, "\n");
        // A quotation that a table or a page's foot interrupts stands there by its excerpt.
        const auto interrupted = [&](const Quotation& q) {
            const auto& all = excerpts_of(name);
            return std::any_of(all.begin(), all.end(), [&](const Excerpt& e) {
                return e.text.find("[...]") != std::string::npos && fault(q, {e}).empty();
            });
        };
        for (const auto& file : files("proofs", ".md"))
            for (const Quotation& q : quotations(text_of(file)))
                if (q.document == name && !stands_in(document, q.text) && !interrupted(q))
                    faults += sentence(file, ":", q.line, ": \"", q.text, "\"\n");
    }
    INFO(faults);
    CHECK(faults.empty());
}

TEST_CASE("quotations: what is cut, changed or moved is refused", "[proofs][quotations]") {
    const auto all = excerpts(
        "Words about the file.\n\n== C.2, line 7\nWe note the operator. Therefore, the complexity analysis of our\n"
        "algorithm in Section 4.2 still applies, and we\nconclude  $\\mathcal{O}(N)$  time. Note (cf. Fig. 3 of Smith "
        "et al. "
        "2020) that low-\nrank \"leaks\" $1 < B_c \\le d$ do not.\n== 2, line 9\nA table is [...] in between.\n");
    REQUIRE(all.size() == 2);
    CHECK(all[0].line == 7);
    CHECK(all[1].place == "2");
    const std::string inside = "begins or ends inside a sentence without …", not_there = "does not stand there";
    const auto of = [&](const std::string& text) { return fault(quoted("x \"" + text + "\" (leet C.2) y"), all); };

    CHECK(of("Therefore, the complexity analysis of our algorithm in Section 4.2 still applies, and we conclude O(N) "
             "time.")
              .empty());
    CHECK(of("We note the operator").empty());  // its point outside
    CHECK(of("… the complexity analysis of our\n  algorithm in Section 4.2 still applies …").empty());
    CHECK(of("Therefore, the complexity analysis … still applies, …").empty());
    CHECK(of("Note (cf. Fig. 3 of Smith et al. 2020) that low-rank “leaks” 1 < B_c ≤ d do not.").empty());
    // Cut and not said so, before, after, or inside.
    CHECK(of("The analysis still applies") == not_there);
    CHECK(of("the complexity analysis of our algorithm in Section 4.2 still applies …") == inside);
    CHECK(of("… the complexity analysis of our algorithm in Section 4.2 still applies") == inside);
    CHECK(of("Therefore, the complexity analysis still applies, …") == not_there);
    CHECK(of("… Fig.") == inside);
    CHECK(of("3 of Smith et al. …") == inside);
    // Changed words, order, parts of words, figures.
    CHECK(of("… the complexity analysis of our method …") == not_there);
    CHECK(of("… still applies, … the complexity analysis …") == not_there);
    CHECK(of("… plexity analysis …") == not_there);
    CHECK(of("… Section 4.1 still applies …") == not_there);
    CHECK(of("… 1 < B_c < d …") == not_there);
    CHECK(of("… …") == "quotes nothing");
    // Place and document.
    CHECK(fault(quoted("\"A table is in between.\" (leet 2)"), all).empty());
    CHECK(fault(quoted("\"A table is in between.\" (leet 3)"), all) == "no excerpt of leet 3");
    CHECK(fault(quoted("\"A table is in between.\" (leet C.2)"), all) == not_there);
    CHECK(fault(quoted("\"A table is in between.\" (other 2)"), all) == "names no document and place");
    CHECK(fault(quoted("\"A table is in between.\""), all) == "names no document and place");
    CHECK(quotations("`\"code\"` and no quotation").empty());

    // The documents themselves: numbers of the margin are passed over, no others.
    const std::string document = "001 One line 002\nTwo 017 words of 2048 tokens.\nThird line\n";
    CHECK(stands_in(document, "Two words of 2048 tokens.", 2));
    CHECK(stands_in(document, "One … 2048 tokens. Third [...] line"));
    CHECK_FALSE(stands_in(document, "Two words of 2048 tokens.", 1));
    CHECK_FALSE(stands_in(document, "Two words of 4096 tokens."));
    CHECK_FALSE(stands_in(document, "Two words of many tokens."));
    CHECK_FALSE(stands_in(document, "Third … line Two"));
}
