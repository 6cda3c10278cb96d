// Traces written and read, replays of them, questions to their results.
#include <apscope/xtensor.h>

#include <sstream>
#include <stdexcept>

#include "calls.h"

namespace generated {
namespace {

using namespace apscope;
namespace fs = std::filesystem;

constexpr const char* names[] = {"fc.weight", "fc.bias", "conv1.weight", "norm.bias"};

std::string kind_of(Draw& draw) {
    return draw.near(draw.of<std::string>({kind::gradient, kind::weights, kind::full_batch,
                                           kind::activation_gradient, kind::layer_input}));
}

TraceWriterOptions options_of(Draw& draw, int workers) {
    TraceWriterOptions options{.workers = workers};
    if (draw.one_in(9)) options.model = draw.text();
    if (draw.one_in(9)) options.name = draw.text();
    if (draw.one_in(9)) options.stage = draw.of<std::string>({"local", "reduced", "clipped", "x"});
    if (draw.one_in(9)) options.reduction = draw.of<std::string>({"mean", "sum", ""});
    if (draw.one_in(9)) options.roles[draw.of(names)] = draw.of<std::string>({"conv", "bias", "x"});
    if (draw.one_in(9)) options.metadata[draw.text()] = draw.text();
    if (draw.one_in(9)) options.sampled_from[draw.of(names)] = draw.integer<std::int64_t>(0, 999);
    options.resume = draw.one_in(9);
    return options;
}

StepFacts facts_of(Draw& draw) {
    StepFacts facts;
    const auto fact = [&] { return draw.one_in(9) ? draw.number<double>() : 0.25; };
    if (!draw.one_in(4)) facts.loss = fact();
    if (!draw.one_in(4)) facts.learning_rate = fact();
    if (draw.one_in(4)) facts.loss_scale = fact();
    return facts;
}

// A trace of a few steps, as a training code writes it.
Trace small_trace(Draw& draw, const fs::path& path) {
    const int workers = draw.between(1, 4), steps = draw.between(1, 3);
    TraceWriterOptions options = options_of(draw, workers);
    TraceWriter writer(path, options);
    const std::size_t tensors = 1 + draw.below(std::size(names)), factor = 1 + draw.below(5);
    const bool has_weights = draw.one_in(2);
    for (std::int64_t step = 0; step < steps; ++step) {
        for (std::size_t t = 0; t < tensors; ++t) {
            const std::size_t length = factor * (t + 1) * 3;
            const auto add = [&](int worker, const char* kind) {
                writer.add(
                    step, worker, names[t], draw.numbers<float>(length),
                    {static_cast<std::int64_t>(factor), static_cast<std::int64_t>(3 * (t + 1))},
                    kind);
            };
            for (int worker = 0; worker < workers; ++worker) add(worker, kind::gradient);
            if (has_weights) add(0, kind::weights);
            if (has_weights) add(0, kind::full_batch);
        }
        writer.end_step(step, facts_of(draw));
    }
    writer.close();
    return open_trace(path);
}

void write_any(Draw& draw) {
    const fs::path path = folder() / "trace";
    const int workers = draw.integer(1, 3);
    TraceWriter writer(path, options_of(draw, workers));
    std::vector<TraceFile> files;
    for (int calls = draw.between(1, 25); calls > 0; --calls) {
        const std::int64_t step = draw.integer<std::int64_t>(0, 2);
        const std::size_t length = draw.below(12);
        const auto work = [&] {
            switch (draw.below(9)) {
                case 0: writer.end_step(step, facts_of(draw)); break;
                case 1: files = writer.write_files(step); break;
                case 2:
                    if (!files.empty() && draw.one_in(3)) {
                        TraceFile& file = files[draw.below(files.size())];
                        if (draw.one_in(2)) file.name = draw.text();
                        if (draw.one_in(2)) file.bytes = draw.integer<std::uint64_t>(0, 99);
                        if (draw.one_in(2)) file.sha256 = draw.text();
                    }
                    writer.commit(step, files, facts_of(draw));
                    break;
                case 3:
                    if (draw.one_in(3)) writer.close();
                    break;
                case 4:
                    if (draw.one_in(2)) {
                        writer.add(step, draw.integer(0, 1), draw.text(),
                                   std::vector<std::uint16_t>(length, 0x3c01),
                                   format(draw.of<std::string>({"fp16", "bf16", "e4m3"})),
                                   {static_cast<std::int64_t>(length)});
                        break;
                    }
                    writer.add(step, draw.integer(0, 1), draw.text(), draw.numbers<float>(length));
                    break;
                default: {
                    std::vector<std::int64_t> shape = {static_cast<std::int64_t>(length)};
                    if (draw.one_in(9)) shape = {draw.integer<std::int64_t>(-2, 4), 3};
                    if (draw.one_in(9)) shape = draw.impossible_shape<std::int64_t>();
                    writer.add(step, draw.integer(0, 2), draw.of(names),
                               draw.numbers<float>(length), shape,
                               draw.one_in(4) ? kind_of(draw) : "gradient");
                }
            }
        };
        (void)refused([&] { allowing<std::runtime_error>(work); });
    }
    const std::vector<std::int64_t> committed = writer.committed();
    TraceWriter moved = std::move(writer);
    require(refused([&] { writer.end_step(0); }) && refused([&] { (void)writer.committed(); }) &&
                refused([&] { writer.add(0, 0, "x", {}); }),
            "a writer that was moved from was used");
    require(moved.committed() == committed, "a move changed the steps");
    moved.close();
    if (!committed.empty()) {
        const Trace trace = open_trace(path);
        require(trace.steps() == committed, "a trace of other steps than were committed");
        for (const TraceTensor& tensor : trace.tensors())
            for (int worker = 0; worker < trace.workers(); ++worker)
                (void)trace.read(committed[0], tensor.name, worker);
    }
}

void read_any(Draw& draw) {
    const Trace trace = small_trace(draw, folder() / "trace");
    Trace other = trace;
    const Trace moved = std::move(other);
    require(other.name() == trace.name() && other.path() == trace.path() &&
                other.model() == moved.model() && other.stage() == moved.stage() &&
                other.reduction() == moved.reduction(),
            "a trace that was moved from has changed");
    const auto tensors = trace.tensors();
    for (int reads = 0; reads < 20; ++reads) {
        const TraceTensor& tensor = draw.of(tensors);
        (void)refused([&] {
            const TraceValues read = trace.read(
                draw.integer<std::int64_t>(0, 2), draw.one_in(5) ? draw.text() : tensor.name,
                draw.integer(0, 3), draw.one_in(2) ? kind_of(draw) : "gradient");
            double size = 1;
            for (const std::int64_t length : read.shape) size *= static_cast<double>(length);
            require(static_cast<double>(read.values.size()) == size, "values of another shape");
        });
    }
    (void)refused([&] { (void)open_trace(draw.text()); });
    (void)refused([&] { (void)open_trace(trace.path() / draw.text()); });
}

// The exception of a caller's function, which passes through the library unchanged.
struct Own {};

ReplayOptions replay_options(Draw& draw) {
    ReplayOptions options;
    if (draw.one_in(2)) options.topologies = {draw.topology()};
    if (draw.one_in(6)) options.topologies.push_back(draw.topology());
    if (draw.one_in(4)) options.workers = draw.integer(1, 4);
    if (draw.one_in(6)) options.first_step = draw.integer<std::int64_t>(0, 1);
    if (draw.one_in(6)) options.end_step = draw.integer<std::int64_t>(1, 3);
    if (draw.one_in(9)) options.steps = {draw.integer<std::int64_t>(0, 2), 0};
    if (draw.one_in(6))
        options.tensors =
            draw.near(draw.of<std::string>({"fc", "bias$", "(", "[a-z]+", ".*{1000}"}));
    options.seed = draw.word();
    options.threads = draw.one_in(9) ? draw.threads() : draw.between(0, 2);
    if (draw.one_in(6)) options.memory = draw.integer<std::size_t>(0, 100) << 20;
    if (draw.one_in(6)) options.draws = draw.integer(1, 4);
    options.persistence = draw.one_in(3);
    if (draw.one_in(4)) options.optimizer = draw.near("adam");
    if (draw.one_in(6)) {
        options.shards = draw.integer<std::size_t>(1, 3);
        options.shard = draw.integer<std::size_t>(0, 1);
    }
    return options;
}

std::vector<std::string> specs_of(Draw& draw) {
    std::vector<std::string> specs = {draw.spec()};
    while (draw.one_in(2)) specs.push_back(draw.one_in(2) ? "none:e4m3" : draw.spec());
    return specs;
}

std::optional<std::string> maybe_topology(Draw& draw) {
    return draw.one_in(2) ? std::optional<std::string>() : draw.topology();
}

// Asks results everything, each question with drawn arguments.
void ask(Draw& draw, const Results& results, const Results& others) {
    const auto try_it = [](const auto& question) { (void)refused(question); };
    const auto column = [&] {
        return draw.one_in(9) ? draw.text() : std::string(draw.of(Results::columns()).name);
    };
    std::vector<std::string> schemes = results.schemes();
    schemes.push_back(draw.near("none:e4m3@ring"));
    for (int questions = 0; questions < 20; ++questions) {
        const std::string name = column();
        const std::size_t row =
            draw.one_in(5) ? draw.integer<std::size_t>(0, 9) : draw.below(results.size() + 1);
        try_it([&] { allowing<std::out_of_range>([&] { (void)results.number(row, name); }); });
        try_it([&] { allowing<std::out_of_range>([&] { (void)results.text(row, name); }); });
        try_it([&] { require(results.numbers(name).size() == results.size(), name); });
        try_it([&] { require(results.texts(name).size() == results.size(), name); });
    }
    try_it([&] {
        const auto cells = table(results, column(), draw.one_in(2) ? "" : draw.topology());
        require(cells.shape(2) == results.schemes().size(), "a table of other schemes");
    });
    (void)results.steps();
    (void)results.tensors();
    (void)results.topologies();
    try_it([&] {
        SummaryOptions options;
        if (draw.one_in(2))
            options.network = network_of("nvlink4", "ethernet_25", draw.integer(1, 2));
        if (draw.one_in(3)) options.elements = draw.one_in(2) ? draw.number<double>() : 1e6;
        if (draw.one_in(3)) options.batch_factor = draw.one_in(2) ? draw.number<double>() : 4;
        if (draw.one_in(4)) options.optimizer = draw.near("lars");
        (void)results.summary(options);
    });
    try_it([&] {
        const std::optional<std::string> topology = maybe_topology(draw);
        (void)results.compare(draw.of(schemes), draw.of(schemes), topology);
    });
    try_it([&] {
        const std::optional<std::string> topology = maybe_topology(draw);
        (void)results.compare(draw.of(schemes), draw.of(schemes), others, topology);
    });
    try_it([&] { (void)results.against(others); });
    try_it([&] {
        (void)results.by(draw.near(draw.of<std::string>({"layer", "role", "step"})),
                         {.topology = maybe_topology(draw)});
    });
    const auto groups = [&] {
        std::vector<std::string> by;
        do
            by.push_back(draw.near(draw.of<std::string>(
                {"trace", "step", "tensor", "role", "scheme", "format", "topology", "stage"})));
        while (draw.one_in(2));
        if (draw.one_in(9)) by.clear();
        return by;
    };
    try_it(
        [&] { (void)results.noise_facts(groups(), draw.one_in(4) ? draw.number<double>() : 1); });
    try_it([&] {
        const PooledTable pooled = results.pool(groups());
        for (const std::vector<double>& values : pooled.values)
            require(values.size() == pooled.size(), "a column of a pool of another length");
        allowing<std::out_of_range>(
            [&] { (void)pooled.number(draw.integer<std::size_t>(0, 3), column()); });
    });
    try_it([&] {
        StepTimeOptions options;
        if (draw.one_in(2)) options.elements = draw.one_in(3) ? draw.number<double>() : 1e6;
        if (draw.one_in(2)) options.bucket_bytes = draw.one_in(3) ? draw.number<double>() : 1e6;
        options.side = draw.near(draw.of<std::string>({"fused", "bucket", "delayed"}));
        options.side_collective = draw.near(draw.of<std::string>({"ring", "tree", "halving"}));
        if (draw.one_in(2)) options.baseline = draw.topology();
        if (draw.one_in(3)) options.network.nodes = draw.integer(1, 2);
        (void)results.step_times(options);
    });
}

void replays(Draw& draw) {
    const fs::path place = folder();
    const Trace trace = small_trace(draw, place / "trace");
    const std::vector<std::string> specs = specs_of(draw);
    ReplayOptions options = replay_options(draw);
    if (draw.one_in(20)) options.progress = [](std::size_t, std::size_t) { throw Own{}; };
    try {
        Results results = replay(trace, specs, options);
        const Results others = replay(trace, {"none:e4m3"}, {.topologies = {"ring"}, .threads = 1});
        ask(draw, results, draw.one_in(2) ? results : others);
        std::ostringstream text, again;
        results.write_csv(text);
        if (!options.progress) {
            options.threads = 1;
            const Results alone = replay(trace, specs, options);
            alone.write_csv(again);
            require(text.str() == again.str(), "other rows on one thread");
        }
        std::ostringstream closed;
        closed.setstate(std::ios::badbit);
        allowing<std::runtime_error>([&] { results.write_csv(closed); });
        if (draw.one_in(3)) {
            for (int writes = 0; writes < 3; ++writes)
                (void)refused([&] {
                    results.write(place / "results",
                                  {.csv = draw.one_in(2), .replace = draw.one_in(2)});
                });
        }
        const Results moved = std::move(results);
        require(results.size() == moved.size(), "results that were moved from lost their rows");
    } catch (const Own&) {
        require(static_cast<bool>(options.progress), "an exception of no one");
    }
}

}  // namespace

const std::vector<Entry> traces = {
    {"TraceWriter", write_any}, {"Trace", read_any}, {"replay and Results", replays}};

}  // namespace generated
