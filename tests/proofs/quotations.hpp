// Quotations of the documents. In proofs/*.md text between straight quotation marks is a document's, followed by
// document and place: "…" (fleet 4.1). proofs/quotations/<document>.txt has the paragraphs in which these sentences
// stand.
#pragma once

#include <string>
#include <vector>

#include "core/base/memory.hpp"

namespace causeway::proofs {

struct Quotation {
    Index line;                   // of the file that quotes
    std::string document, place;  // empty where none is named
    std::string text;             // as it is quoted, cuts marked by …
};

struct Excerpt {
    std::string place;
    Index line;        // of the document's text form at which it begins
    std::string text;  // as it stands there; [...] for what comes between two halves of a sentence
};

// The quotations of a file of proofs/, outside `code`.
std::vector<Quotation> quotations(const std::string& markdown);

// The excerpts of a file of proofs/quotations/: each begins with a line "== PLACE, line N".
std::vector<Excerpt> excerpts(const std::string& text);

// The normal form in which texts are compared: one line, without TeX, markup, hyphens between letters, and blanks
// around signs of operations; letters with a tilde or a hat as ~A, ^a.
std::string plain(const std::string& text);

// What is wrong with a quotation of a document that has these excerpts: nothing (""), or that its words do not stand
// there, or that it begins or ends inside a sentence and does not say so.
std::string fault(const Quotation& quotation, const std::vector<Excerpt>& excerpts);

// Whether the words stand in a document's text form, whose margin may have numbers of three or four digits among them;
// one after the other where they are cut by … or [...]. With from > 0 they must begin in that line.
bool stands_in(const std::string& document, const std::string& words, Index from = 0);

}  // namespace causeway::proofs
