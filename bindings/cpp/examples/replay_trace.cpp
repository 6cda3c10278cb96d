// Replays a recorded trace through schemes and reduction orders, and prints a ranking.
#include <apscope/apscope.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: replay_trace TRACE\n");
        return 2;
    }
    try {
        const apscope::Trace trace = apscope::open_trace(argv[1]);
        std::printf("%s: %s, %zu steps, %d workers, %zu tensors\n", trace.name().c_str(),
                    trace.model().c_str(), trace.steps().size(), trace.workers(),
                    trace.tensors().size());

        const apscope::Results results = apscope::replay(
            trace, {"none:bf16", "none:e4m3", "aps:e4m3", "loss_scaling:e4m3,scale=largest"},
            {.topologies = {"ring", "tree"}});

        std::printf("%-32s %-8s %10s %12s %10s  %s\n", "scheme", "topology", "step_nmse",
                    "layer_cosine", "underflow", "worst layer");
        for (const apscope::SummaryRow& row : results.summary()) {
            std::printf("%-32s %-8s %10.3e %12.6f %10.4f  %s\n", row.scheme.c_str(),
                        row.topology.c_str(), row.step_nmse, row.layer_cosine,
                        row.underflow_reduced, row.worst_layer.c_str());
        }

        // The rows behind the ranking: one per step, tensor, scheme, stage and order.
        const std::size_t last = results.size() - 1;
        std::printf("%zu rows; the last: %.*s at step %g, nmse %.3e\n", results.size(),
                    static_cast<int>(results.text(last, "tensor").size()),
                    results.text(last, "tensor").data(), results.number(last, "step"),
                    results.number(last, "nmse"));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "replay_trace: %s\n", error.what());
        return 2;
    }
}
