// The factorisations as values: what they are, what their rank means, whether they look ahead, how to call them. The
// public call, the tests, the shell and its help read this list. A factorisation is one file and one line in
// registry.cpp.
#pragma once

#include <functional>

#include "core/lowrank/problem.hpp"

namespace causeway::lowrank {

// A factorisation; what it is called with has been checked.
struct Method {
    std::string name;  // "favor+"
    std::string source;
    std::string formula;  // B Cᵀ, or the features of one token
    std::string text;     // what it is, in a few sentences
    std::string use;      // when to take it
    std::string time;     // operations of one head
    std::string rank;     // what the option rank means
    // Whether an entry of B Cᵀ depends on other tokens than its two (one number common to all rows of B, and its
    // inverse in C, does not count). Where it does (landmarks, samples, codes, singular vectors), masking B Cᵀ does not
    // make the output causal: it is meant for a prompt, whose tokens are all known, and nothing leaks into tokens
    // generated after it (fleet section 4.1, claims A12).
    bool future = false;
    bool seeded = false;
    bool values = false;     // takes the option v: values, whose lengths weigh the keys
    Index default_rank = 0;  // where none is given, at most max_rank; 0: the rank follows from d alone
    std::function<Index(const Size&)> max_rank;                  // largest rank
    std::string max_rank_text;                                   // what that is: "the length"
    std::function<Index(const Size&, const Settings&)> columns;  // with default_rank == 0: the rank
    std::vector<Option> options;
    std::function<std::vector<std::string>(const Settings&)>
        extras;  // what is returned beside B and C, [N] numbers each
    std::function<void(const Size&, Index rank, const Settings&)> check;  // further conditions; throws Error

    std::function<void(const Head<float>&)> f32;  // none: computed in Float64
    std::function<void(const Head<double>&)> f64;
};

// All of them, in the order in which tables list them.
const std::vector<Method>& methods();

// Throws Error for an unknown name, with the nearest known one.
const Method& method(const std::string& name);

// Each defined in its file.
Method favor_method();
Method rfa_method();
Method lara_method();
Method nystrom_method();
Method linformer_method();
Method skyformer_method();
Method skeinformer_method();
Method transformer_vq_method();
Method hyper_method();
Method taylor_method();
Method hedgehog_method();
Method svd_method();
Method rsvd_method();

}  // namespace causeway::lowrank
