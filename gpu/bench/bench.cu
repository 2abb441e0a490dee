#include "gpu/bench/bench.hpp"

namespace causeway::gpu::bench {

Times time(const std::function<void(int)>& call, int sets, int repeats, cudaStream_t stream) {
    const auto median = [](std::vector<double>& ms) {
        std::sort(ms.begin(), ms.end());
        return ms[ms.size() / 2];
    };
    Event start, stop;
    std::vector<double> ms;
    for (int n = -3; n < repeats; ++n) {
        start.record(stream);
        call((n + 3) % sets);
        stop.record(stream);
        const double t = stop.since(start);
        if (n >= 0) ms.push_back(t);
    }
    Times times;
    times.call = median(ms);
    cudaGraph_t graph;
    cudaGraphExec_t run;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
    for (int i = 0; i < sets; ++i) call(i);
    check(cudaStreamEndCapture(stream, &graph), "capturing a graph");
    check(cudaGraphInstantiate(&run, graph, 0), "instantiating a graph");
    ms.clear();
    for (int n = -2; n < repeats; ++n) {
        start.record(stream);
        check(cudaGraphLaunch(run, stream), "launching a graph");
        stop.record(stream);
        const double t = stop.since(start);
        if (n >= 0) ms.push_back(t / sets);
    }
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
    times.median = median(ms);
    times.best = ms.front();
    return times;
}

}  // namespace causeway::gpu::bench
