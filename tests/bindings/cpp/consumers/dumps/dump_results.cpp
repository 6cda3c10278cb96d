// Prints all columns of a replay as JSON, its summary, breakdowns, comparisons, also with another
// replay, pools, modelled times and noise:
// dump_results TRACE SCHEME...
#include <apscope/apscope.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

std::string json_text(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

std::string number(double value) {
    if (std::isnan(value)) return "null";
    if (std::isinf(value)) return value < 0 ? "\"-inf\"" : "\"inf\"";
    char text[64];
    std::snprintf(text, sizeof text, "\"%a\"", value);
    return text;
}

using Numbers = std::vector<std::pair<std::string_view, double>>;

// An object of texts and numbers.
std::string object(const std::vector<std::pair<std::string_view, std::string>>& texts,
                   const Numbers& numbers) {
    std::string out;
    for (const auto& [name, text] : texts)
        out += (out.empty() ? "" : ", ") + json_text(name) + ": " + json_text(text);
    for (const auto& [name, value] : numbers)
        out += (out.empty() ? "" : ", ") + json_text(name) + ": " + number(value);
    return "{" + out + "}";
}

std::string side(const apscope::ComparedScheme& s) {
    return object({{"scheme", s.scheme}, {"topology", s.topology}},
                  {{"error_over_noise", s.error_over_noise},
                   {"step_nmse", s.step_nmse},
                   {"nmse", s.nmse},
                   {"underflow_wire", s.underflow_wire},
                   {"underflow_reduced", s.underflow_reduced},
                   {"cosine", s.cosine},
                   {"overflowed", static_cast<double>(s.overflowed)},
                   {"accumulation", s.accumulation},
                   {"share_underflow", s.share_underflow},
                   {"share_rounding", s.share_rounding},
                   {"share_saturation", s.share_saturation},
                   {"share_accumulation", s.share_accumulation},
                   {"share_interaction", s.share_interaction}});
}

std::string comparison(const apscope::ComparisonRow& r) {
    return "{\"both\": " +
           object({{"layer", r.layer}}, {{"whole", r.whole ? 1.0 : 0.0},
                                         {"steps", static_cast<double>(r.steps)},
                                         {"wins", static_cast<double>(r.wins)},
                                         {"losses", static_cast<double>(r.losses)},
                                         {"ties", static_cast<double>(r.ties)},
                                         {"median_ratio", r.median_ratio},
                                         {"worst_ratio", r.worst_ratio},
                                         {"geometric_ratio", r.geometric_ratio}}) +
           ", \"a\": " + side(r.a) + ", \"b\": " + side(r.b) + "}";
}

// Objects of rows, separated by commas.
template <class Row, class Each>
std::string joined(const std::vector<Row>& rows, Each each) {
    std::string out;
    for (const Row& row : rows) out += (out.empty() ? "" : ", ") + each(row);
    return out;
}

std::string comparisons(const apscope::Results& results, const std::string& against) {
    return joined(results.schemes(), [&](const std::string& scheme) {
        return joined(results.compare(scheme, against), comparison);
    });
}

std::string summary(const apscope::SummaryRow& r) {
    const apscope::Persistence &one = r.persistence[0], &three = r.persistence[1];
    return object({{"scheme", r.scheme},
                   {"family", r.family},
                   {"format", r.format},
                   {"topology", r.topology},
                   {"worst_layer", r.worst_layer}},
                  {{"persistence_1", one.pooled},
                   {"persistence_1_low", one.low},
                   {"persistence_1_high", one.high},
                   {"typical_persistence_1", one.typical},
                   {"persistence_3", three.pooled},
                   {"persistence_3_low", three.low},
                   {"persistence_3_high", three.high},
                   {"typical_persistence_3", three.typical},
                   {"persistence_10", r.persistence[2].pooled},
                   {"update_loss_3", r.update_loss[0].loss},
                   {"update_loss_3_low", r.update_loss[0].low},
                   {"update_loss_3_high", r.update_loss[0].high},
                   {"update_loss_10", r.update_loss[1].loss},
                   {"update_loss_30", r.update_loss[2].loss},
#define APSCOPE_FIGURE(name, unit, section, page, value, says) {#name, static_cast<double>(r.name)},
#include "apscope/analysis/summary/summary_figures.inc"
                   {"time", r.time},
                   {"speedup", r.speedup},
                   {"worst_step", r.worst_step ? static_cast<double>(*r.worst_step) : NAN}});
}

std::string breakdown(const apscope::BreakdownRow& r) {
    return "{\"part\": " + json_text(r.part) + ", \"summary\": " + summary(r.summary) + "}";
}

std::string noise(const apscope::NoiseFacts& r) {
    return "{\"group\": [" + joined(r.group, json_text) + "], \"facts\": " +
           object({}, {{"workers", static_cast<double>(r.workers)},
                       {"steps", static_cast<double>(r.steps)},
                       {"blocks", static_cast<double>(r.blocks)},
                       {"blocks_without_noise", static_cast<double>(r.blocks_without_noise)},
                       {"lone_blocks", static_cast<double>(r.lone_blocks)},
                       {"noise_ratio", r.noise_ratio},
                       {"noise_scale", r.noise_scale},
                       {"low", r.low},
                       {"high", r.high}}) +
           "}";
}

std::string against(const apscope::AgainstRow& r) {
    return "{\"names\": " + object({{"scheme", r.scheme}, {"held_by", r.held_by}}, {}) +
           ", \"compared\": " + (r.compared ? comparison(*r.compared) : "null") + "}";
}

std::string pools(const apscope::PooledTable& table) {
    std::string out;
    for (std::size_t i = 0; i < table.size(); ++i) {
        std::vector<std::pair<std::string_view, std::string>> texts;
        for (std::size_t k = 0; k < table.by.size(); ++k)
            texts.emplace_back(table.by[k], table.groups[i][k]);
        Numbers numbers;
        for (const std::string& name : table.columns)
            numbers.emplace_back(name, table.number(i, name));
        out += (out.empty() ? "" : ", ") + object(texts, numbers);
    }
    return out;
}

std::string times(const std::vector<apscope::StepTime>& rows) {
    std::string out;
    for (const apscope::StepTime& r : rows) {
        if (!out.empty()) out += ", ";
        out += object({{"scheme", r.scheme}, {"topology", r.topology}},
                      {{"messages", r.messages},
                       {"payload_bytes", r.payload_bytes},
                       {"intra_bytes", r.intra_bytes},
                       {"node_bytes", r.node_bytes},
                       {"side_bytes", r.side_bytes},
                       {"side_seconds", r.side_seconds},
                       {"pass_seconds", r.pass_seconds},
                       {"seconds", r.seconds},
                       {"side_share", r.side_share},
                       {"fp32_seconds", r.fp32_seconds},
                       {"speedup", r.speedup}});
    }
    return out;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> schemes(argv + 2, argv + argc);
    const apscope::Results results =
        apscope::replay(apscope::open_trace(argv[1]), schemes,
                        {.topologies = {"ring", "hierarchical:4+kahan"},
                         .first_step = 0,
                         .end_step = 4,
                         .persistence = true,
                         .optimizer = "adam"});
    std::string out = "{\"columns\": [";
    for (const apscope::Column& column : apscope::Results::columns()) {
        const bool text = column.kind == apscope::ColumnKind::text;
        if (out.back() != '[') out += ", ";
        out += "{\"name\": " + json_text(column.name) +
               ", \"kind\": " + (text ? "\"text\"" : "\"number\"") + ", \"values\": [";
        for (std::size_t i = 0; i < results.size(); ++i) {
            out += (i ? "," : "") + (text ? json_text(results.text(i, column.name))
                                          : number(results.number(i, column.name)));
        }
        out += "]}";
    }
    out += "], \"summary\": [";
    out += joined(results.summary(), summary) + "], \"breakdowns\": [";
    out += "[" + joined(results.by("layer", {.optimizer = "lars"}), breakdown) + "], ";
    out += "[" + joined(results.by("role", {.optimizer = "sgd"}), breakdown) + "], ";
    out += "[" + joined(results.by("step", {.topology = "exact", .batch_factor = 3}), breakdown);
    out += "]], \"noise\": [[" + joined(results.noise_facts(), noise) + "], [";
    out += joined(results.noise_facts({"role", "step"}, 3), noise) + "]], \"against\": [";
    const apscope::Results other =
        apscope::replay(apscope::open_trace(argv[1]), {schemes[1], "aps:e3m4", schemes[0]},
                        {.topologies = {"ring"}, .first_step = 2, .end_step = 6, .seed = 3});
    out += joined(results.against(other), against) + "], \"with_other\": [";
    out += joined(results.compare(schemes[0], "aps:e3m4", other, "ring"), comparison);
    out += "], \"comparisons\": [" + comparisons(results, schemes.front()) + "], \"pools\": [";
    const std::vector<std::vector<std::string>> all_by = {{"scheme"},
                                                          {"scheme", "tensor", "step"},
                                                          {"scheme", "stage"},
                                                          {"scheme", "topology", "role"}};
    for (const auto& by : all_by) {
        if (out.back() != '[') out += ", ";
        out += "[" + pools(results.pool(by)) + "]";
    }
    apscope::StepTimeOptions options;
    options.elements = 1e6;
    options.bucket_bytes = 1000;
    options.side = "bucket";
    options.side_collective = "tree";
    options.network.intra_bandwidth = 5e10;
    options.network.nodes = 2;
    options.network.interfaces = 1;
    out += "], \"times\": [[" + times(results.step_times()) + "], [" +
           times(results.step_times(options)) + "]]}\n";
    std::fputs(out.c_str(), stdout);
}
