// What was queued on a stream between two points, to be queued again.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"

namespace causeway::gpu {

class Graph {
public:
    // Of what queue() puts on the stream, which is captured and does not run.
    template <class F>
    Graph(cudaStream_t stream, F&& queue) {
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
        cudaGraph_t graph = nullptr;
        try {
            queue();
        } catch (...) {
            succeeded(cudaStreamEndCapture(stream, &graph));
            if (graph) succeeded(cudaGraphDestroy(graph));
            throw;
        }
        check(cudaStreamEndCapture(stream, &graph), "capturing a graph");
        const cudaError_t code = cudaGraphInstantiate(&run_, graph, 0);
        succeeded(cudaGraphDestroy(graph));
        check(code, "instantiating a graph");
    }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph() { succeeded(cudaGraphExecDestroy(run_)); }

    void launch(cudaStream_t stream) const { check(cudaGraphLaunch(run_, stream), "launching a graph"); }

private:
    cudaGraphExec_t run_ = nullptr;
};

}  // namespace causeway::gpu
