"""What the scripts beside this one time of a call on a GPU: plain calls in a queue, and replays of its graph."""
import statistics
import sys


def timed(call, repeats):
    import torch  # whoever times has found it
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        call()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / repeats


def time_of(call):
    """Milliseconds: graph replays (None where the call cannot be captured) and plain calls, medians of seven queues."""
    import torch
    for _ in range(3):
        call()
    plain = statistics.median(timed(call, 10) for _ in range(7))
    graph, replay = torch.cuda.CUDAGraph(), None
    try:
        with torch.cuda.graph(graph):
            call()
        graph.replay()
        replay = statistics.median(timed(graph.replay, 10) for _ in range(7))
    except Exception as problem:  # every library has classes of its own
        print("no graph of a call:", str(problem)[:200], file=sys.stderr)
        torch.cuda.synchronize()
    return replay, plain
