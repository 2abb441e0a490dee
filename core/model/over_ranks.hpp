// Softmax attention of a layer whose keys and values are shared out among the ranks of MPI, each of which runs the
// whole model.
#pragma once

#include "core/model/mixer.hpp"

namespace causeway::model {

// How many keys each of p ranks has of `length`, of which the first `together` were shared out in order, in shares as
// equal as can be, and token t behind them went to rank t % p.
std::vector<Index> shares_of(Index together, Index length, int p);

// o [batch, heads, n, width] of the tokens of a chunk, one after the other, by tree or by ring decoding. The first call
// shares out what the state has, which has to be the same on all ranks: each keeps its share and lets go of the rest.
// Every rank has to call; all get the result, by the ring up to rounding. Throws Error where ranks call differently.
Tensor attend_over_ranks(Ranks how, const Chunk&, const Heads&, LayerState&, double scale);

}  // namespace causeway::model
