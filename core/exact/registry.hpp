// The methods as values: what they are, what they support, how to call them. `methods()`, the automatic choice, the
// tests, the benchmarks and the shell all read this list. A method is one file and one line in all_methods.hpp.
#pragma once

#include <functional>
#include <list>
#include <string>

#include "core/exact/cost.hpp"
#include "core/exact/problem.hpp"
#include "core/measure/counting.hpp"

namespace causeway::exact {

struct Method {
    std::string name;        // "lightning-attention-2"
    std::string short_name;  // as in the leet tables: "LA"
    std::string source;      // where it comes from
    std::string formula;     // what it computes in which order, in lines; n tokens in a block, p counts them from 0
    std::string text;        // how it goes about it, in a sentence or two
    std::string use;         // when to take it
    std::string time;        // complexity in N
    std::string memory;  // scalars beyond inputs and output, per head, up to factors; exactly, of the definition: cost
    Index block = 0;     // default block, tile or base-case length; 0: the method has none
    bool state = false;  // carries a state that can be given and returned
    // No bit of an output depends on later tokens, on N or on what else is in the call. Not so where a block of tokens
    // is one product of matrices: the order of a sum then depends on the place of its row among them.
    bool prefix = false;
    bool normalizes = false;  // divides by the row sums itself; others run on V' = [V, 1]
    // "auto" may choose it. Not so the forms that stand here to be compared with: each has the same sum in a faster
    // form beside it, and timing them (quadratic time, or all prefix states in memory) would only make the choice
    // slower.
    bool candidate = true;

    // Closed forms, unnormalised and for 1 <= block <= N; called by the functions of the same names in cost.hpp, which
    // say what they count.
    Cost (*cost)(const Work&) = nullptr;             // operations and memory of the definition
    Index (*running_memory)(const Work&) = nullptr;  // scalars that the form which runs holds
    Index (*roundings)(const Work&) = nullptr;       // that a term of its outputs can meet

    std::function<void(const Problem<float>&)> f32;
    std::function<void(const Problem<double>&)> f64;
    std::function<void(const Problem<Counted>&)> counted;  // the definition, counting its operations
};

const std::list<Method>& methods();  // all, in the order in which tables list them

// Adds a method of the caller's to the list, at its end; from then on it is one like the others in every call. Throws
// Error where its name or short name is taken or its descriptor lacks a function or a closed form. Not while another
// thread is in a call of this library.
void register_method(Method);

// Takes such a method off the list again; references to it end. Throws Error for a name that was not registered.
void unregister_method(const std::string& name);

// By name or short name. Throws Error for an unknown one, with the nearest known name.
const Method& method(const std::string& name);

// Computes O, and the final state where p.state is given. p is trusted. With normalize, methods that do not divide
// themselves run on V' = [V, 1], one head after the other: 2N(d+1) scalars.
template <class T>
void run(const Method&, const Problem<T>& p);

}  // namespace causeway::exact
