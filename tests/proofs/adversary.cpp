#include "tests/proofs/adversary.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/base/error.hpp"
#include "tests/paths.hpp"

namespace causeway::proofs {
namespace {

std::string path() { return tests::source_dir() + "/tests/proofs/worst_inputs.txt"; }

double next(double x, double towards, bool single) {
    return single ? static_cast<double>(std::nextafter(static_cast<float>(x), static_cast<float>(towards)))
                  : std::nextafter(x, towards);
}

// Uphill or downhill along the gradient g: entries change by a part of themselves that is largest where a part of the
// entry moves the output most.
Point along(Point x, const Point& g, double step) {
    double most = 0;
    for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(g[i] * x[i]));
    for (std::size_t i = 0; most > 0 && i < x.size(); ++i) x[i] *= 1 + step * (g[i] * x[i] / most);
    return x;
}

Point moved(const Bound& b, Point x, Generator& draw) {
    std::normal_distribution<double> normal;
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw() % n); };
    const auto small = [&](std::size_t least) { return std::ldexp(normal(draw), -static_cast<int>(below(least))); };
    const std::size_t own = b.moves.size(), i = below(x.size()), j = below(x.size());
    const std::size_t kind = below(9 + 2 * own + (b.gradient ? 2 : 0));
    switch (kind) {
        case 0:
        case 1: {  // one unit in the last place, or some
            const double towards = draw() % 2 ? INFINITY : -INFINITY;
            for (std::size_t n = kind == 0 ? 1 : below(16); n > 0; --n) x[i] = next(x[i], towards, b.single);
            break;
        }
        case 2: x[i] *= std::exp2(normal(draw)); break;
        case 3: x[i] = -x[i]; break;
        case 4: x[i] += small(24); break;
        case 5: {  // mass from one entry to another
            const double part = x[i] * small(12);
            x[i] -= part, x[j] += part;
            break;
        }
        case 6: std::swap(x[i], x[j]); break;
        case 7: x[i] = x[j]; break;
        case 8: {
            const double size = small(24);
            for (double& y : x) y *= 1 + size * normal(draw);
            break;
        }
        default: {
            const std::size_t special = (kind - 9) / 2;
            if (special < own) x = b.moves[special](x, draw);
            else x = along(x, b.gradient(x), small(26));
        }
    }
    if (b.single)
        for (double& y : x) y = static_cast<double>(static_cast<float>(y));
    return x;
}

bool allowed(const Bound& b, const Point& x) {
    return std::all_of(x.begin(), x.end(), [](double y) { return std::isfinite(y); }) && b.inside(x);
}

}  // namespace

Found started(const Bound& b, Generator& draw) {
    for (;;) {
        Point x = b.start(draw);
        if (b.single)
            for (double& y : x) y = static_cast<double>(static_cast<float>(y));
        if (allowed(b, x)) return {x, b.share(x)};
    }
}

Found climbed(const Bound& b, Found from, Generator& draw, int steps) {
    for (; steps > 0 && !std::isnan(from.share); --steps) {
        const Point x = moved(b, from.x, draw);
        if (x == from.x || !allowed(b, x)) continue;
        const double share = b.share(x);
        if (!(share < from.share)) from = {x, share};
    }
    return from;
}

// A line a bound: name, tab, share, and the numbers exactly, in hexadecimal.
Kept kept_inputs() {
    std::ifstream file(path());
    if (!file) fail(path(), ": cannot be read");
    Kept out;
    for (std::string line; std::getline(file, line);) {
        const std::size_t tab = line.find('\t');
        if (line.empty() || line[0] == '#' || tab == std::string::npos) continue;
        std::istringstream words(line.substr(tab));
        std::string word;
        Found found;
        words >> word, found.share = std::strtod(word.c_str(), nullptr);
        while (words >> word) found.x.push_back(std::strtod(word.c_str(), nullptr));
        out[line.substr(0, tab)] = found;
    }
    return out;
}

void keep(const Kept& all) {
    std::ofstream file(path());
    file << "# The worst inputs found for each error bound: its name, error over bound, the numbers (adversary.hpp).\n"
            "# Written by the long search, causeway-tests \"[.adversary-long]\".\n";
    for (const auto& [name, found] : all) {
        char text[64];
        std::snprintf(text, sizeof text, "\t%.4f", found.share);
        file << name << text;
        for (const double x : found.x) std::snprintf(text, sizeof text, " %a", x), file << text;
        file << '\n';
    }
    if (!file.flush()) fail(path(), ": cannot be written");
}

}  // namespace causeway::proofs
