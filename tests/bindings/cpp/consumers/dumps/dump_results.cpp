// Prints all columns and the summary of a replay as JSON: dump_results TRACE SCHEME...
#include <apscope/apscope.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
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

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> schemes(argv + 2, argv + argc);
    const apscope::Results results = apscope::replay(
        apscope::open_trace(argv[1]), schemes,
        {.topologies = {"ring", "hierarchical:4+kahan"}, .first_step = 0, .end_step = 4});
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
    for (const apscope::SummaryRow& r : results.summary()) {
        if (out.back() != '[') out += ",";
        out += "{\"scheme\": " + json_text(r.scheme) + ", \"family\": " + json_text(r.family) +
               ", \"format\": " + json_text(r.format) + ", \"topology\": " + json_text(r.topology) +
               ", \"worst_layer\": " + json_text(r.worst_layer) +
               ", \"step_nmse\": " + number(r.step_nmse) +
               ", \"layer_cosine\": " + number(r.layer_cosine) +
               ", \"worst_nmse\": " + number(r.worst_nmse) + ", \"worst_step\": " +
               number(r.worst_step ? static_cast<double>(*r.worst_step) : NAN) +
               ", \"nmse\": " + number(r.nmse) + ", \"relative_bias\": " + number(r.relative_bias) +
               ", \"expected_variance\": " + number(r.expected_variance) +
               ", \"underflow_wire\": " + number(r.underflow_wire) +
               ", \"underflow_reduced\": " + number(r.underflow_reduced) +
               ", \"volume\": " + number(r.volume) +
               ", \"skipped\": " + number(static_cast<double>(r.skipped)) +
               ", \"overflowed\": " + number(static_cast<double>(r.overflowed)) +
               ", \"nonfinite\": " + number(static_cast<double>(r.nonfinite)) + "}";
    }
    out += "]}\n";
    std::fputs(out.c_str(), stdout);
}
