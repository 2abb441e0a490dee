// The methods as values: what they are, what they support, how to call them. `methods()`, the automatic choice, the
// tests, the benchmarks and the shell all read this list. A method is one file and one line in registry.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/exact/cost.hpp"
#include "core/exact/problem.hpp"
#include "core/measure/counting.hpp"

namespace causeway::exact {

struct Method {
    std::string name;        // "lightning-attention-2"
    std::string short_name;  // as in the leet tables: "LA"
    std::string source;      // where it comes from
    std::string time;        // complexity in N
    std::string memory;  // scalars beyond inputs and output, per head, up to factors; exactly, of the definition: cost
    Index block = 0;     // default block, tile or base-case length; 0: the method has none
    bool state = false;  // carries a state that can be given and returned
    bool normalizes = false;  // divides by the row sums itself; others run on V' = [V, 1]
    // "auto" may choose it. Not so the forms that stand here to be compared with: each has the same sum in a faster
    // form beside it, and timing them (quadratic time, or all prefix states in memory) would only make the choice
    // slower.
    bool candidate = true;
    Cost (*cost)(const Work&) =
        nullptr;  // closed form of the definition's operations and memory; called by exact::cost

    std::function<void(const Problem<float>&)> f32;
    std::function<void(const Problem<double>&)> f64;
    std::function<void(const Problem<Counted>&)> counted;  // the definition, counting its operations

    template <class T>
    const auto& forward() const {
        if constexpr (std::is_same_v<T, float>) return f32;
        else if constexpr (std::is_same_v<T, double>) return f64;
        else return counted;
    }
};

const std::vector<Method>& methods();  // all, in the order in which tables list them

// By name or short name. Throws Error for an unknown one, with the nearest known name.
const Method& method(const std::string& name);

// Computes O, and the final state where p.state is given. p is trusted. With normalize, methods that do not divide
// themselves run on V' = [V, 1], one head after the other: 2N(d+1) scalars.
template <class T>
void run(const Method&, const Problem<T>& p);

}  // namespace causeway::exact
