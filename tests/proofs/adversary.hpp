// Error bounds as functions to climb. A bound that a document or these proofs state is a ratio, error over bound, that
// must stay at or below 1; an adversary looks for inputs where it is large, along the gradients of the library and by
// moves drawn at random, and the worst inputs it ever found are kept in worst_inputs.txt, which the tests replay.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace causeway::proofs {

using Point = std::vector<double>;
using Generator = std::mt19937_64;

struct Bound {
    std::string id, name;  // claim of the index; the name that its worst input is kept by
    bool single = true;    // the numbers of a point are Float32
    std::function<Point(Generator&)> start;
    std::function<bool(const Point&)> inside;   // of finite numbers, those for which the bound is stated
    std::function<double(const Point&)> share;  // error over bound; NaN where a result is not a number
    // May be empty: the gradient of the output that is off most, by the library; and moves of this bound alone.
    std::function<Point(const Point&)> gradient;
    std::vector<std::function<Point(const Point&, Generator&)>> moves;
    // A bound that might be thought to hold, and its share where it is refuted by the worst input kept.
    std::string refuted{};
    std::function<double(const Point&)> refuted_share{};
};

// Every stated bound on an error.
std::vector<Bound> bounds();

struct Found {
    Point x;
    double share = 0;
};

Found started(const Bound&, Generator&);
// `steps` moves from a point, of which those are made that lead no lower. NaN ends the climb.
Found climbed(const Bound&, Found from, Generator&, int steps);

// name -> worst input ever found, with its share.
using Kept = std::map<std::string, Found>;
Kept kept_inputs();
void keep(const Kept&);

}  // namespace causeway::proofs
