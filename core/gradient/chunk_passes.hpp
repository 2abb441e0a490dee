// The chunkwise gradient of one head in the two passes that it has over the tokens, for callers between whose parts of
// a sequence states travel.
#pragma once

#include "core/gradient/chunk_states.hpp"

namespace causeway::gradient {

// forward(), then backward(). In between a state is kept for each chunk of c tokens, with gates or the delta rule;
// what the head points to must outlive this.
template <class T>
class ChunkPasses {
public:
    ChunkPasses(const GradHead<T>& d, Index c);

    // From the state before the tokens, in.S. last, where not null: gets the state after them.
    void forward(T* last);
    // From d.dS, the gradient with respect to the state after the tokens, which becomes that of the state before them.
    void backward();
    // Numbers that are kept between the two.
    Index kept() const { return plain_ ? 0 : chunks_ * head_.in.dk * head_.in.dv; }

private:
    GradHead<T> head_;
    Index c_, chunks_;
    bool plain_;  // neither gates nor delta rule
    ChunkStates<T> states_;
};

extern template class ChunkPasses<float>;
extern template class ChunkPasses<double>;

// d.dS alone, from that with respect to the state after the tokens to that of the state before them, in chunks of c: no
// other gradient is written, no state is read, and none is kept.
template <class T>
void run_state_gradient(const GradHead<T>& d, Index c);

}  // namespace causeway::gradient
