#include "analysis/trace/strict_json.h"

#include <set>
#include <stdexcept>
#include <vector>

#include "analysis/trace/one_line.h"
#include "core/limits.h"

namespace apscope::detail {

nlohmann::json parse_strict_json(std::string_view text, const std::string& where) {
    using json = nlohmann::json;
    std::vector<std::set<std::string>> open_objects;
    const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
        if (depth > limits::json_depth) {
            throw std::invalid_argument(where + " is nested more than " +
                                        std::to_string(limits::json_depth) + " deep");
        }
        if (event == json::parse_event_t::object_start) {
            open_objects.emplace_back();
        } else if (event == json::parse_event_t::object_end) {
            open_objects.pop_back();
        } else if (event == json::parse_event_t::key) {
            const auto key = parsed.get<std::string>();
            if (!open_objects.back().insert(key).second)
                throw std::invalid_argument(where + " has the key '" +
                                            one_line(limits::clipped(key)) +
                                            "' twice in one object");
        }
        return true;
    };
    try {
        return json::parse(text.begin(), text.end(), check);
    } catch (const json::parse_error& error) {
        throw std::invalid_argument(where + " is not valid JSON (at byte " +
                                    std::to_string(error.byte) + ")");
    } catch (const json::out_of_range&) {
        throw std::invalid_argument(where + " has a number outside the range of a double");
    }
}

}  // namespace apscope::detail
