// A network on a device that is not the CPU: what Model and Session ask of it. gpu/model has one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/model.hpp"

namespace causeway::model {

struct Watch;

// Some texts of one length on their way, with what the layers keep of them there. The calls mean what those of Session
// mean; ids and the length of the text have been checked.
class AcceleratedTexts {
public:
    virtual ~AcceleratedTexts() = default;
    virtual std::unique_ptr<AcceleratedTexts> copy() const = 0;
    virtual std::size_t bytes() const = 0;

    virtual Tensor hidden(std::span<const std::int32_t> ids, const RunOptions&) = 0;
    virtual Tensor logits(const Tensor& hidden, Index first_row, Index rows) = 0;
    virtual std::vector<Guess> guesses(const Tensor& hidden, Index first_row, std::span<const std::int32_t> ids) = 0;
    virtual Tensor last_logits(std::span<const std::int32_t> ids, const RunOptions&) = 0;
    virtual Ids likeliest(std::span<const std::int32_t> ids, const RunOptions&) = 0;
    // Runs the first tokens of a text up to the layer of the watch, and gives it what that layer computes.
    virtual void look(std::span<const std::int32_t> ids, const Watch&, const RunOptions&) = 0;
};

class Accelerator {
public:
    virtual ~Accelerator() = default;
    virtual std::unique_ptr<AcceleratedTexts> begin(Index batch, std::shared_ptr<const Swaps>) const = 0;
    // What computes replacement(with, options) there in the place of a layer's attention; null where nothing does, and
    // the CPU has to. Throws Error for options that it does not take there.
    virtual std::shared_ptr<const Elsewhere> replacement(const std::string& with, const SwapOptions& options,
                                                         const LayerInfo& layer) const = 0;
    // Whether layers of linear attention with fixed decay can be computed by this exact method there.
    virtual bool takes_method(const std::string& method) const = 0;
    virtual std::string text() const = 0;   // where it is, and as what: "NVIDIA H100, weights in BFloat16"
    virtual std::size_t bytes() const = 0;  // of the weights there
};

}  // namespace causeway::model
