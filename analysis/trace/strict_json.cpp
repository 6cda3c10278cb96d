#include "analysis/trace/strict_json.h"

#include <set>
#include <vector>

#include "analysis/trace/one_line.h"
#include "core/error.h"
#include "core/limits.h"

namespace apscope::detail {

nlohmann::json parse_strict_json(std::string_view text, const std::string& where) {
    using json = nlohmann::json;
    std::vector<std::set<std::string>> open_objects;
    const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
        if (depth > limits::json_depth) {
            throw error(where + " is nested more than " + std::to_string(limits::json_depth) +
                            " deep",
                        ErrorKind::unreadable_file);
        }
        if (event == json::parse_event_t::object_start) {
            open_objects.emplace_back();
        } else if (event == json::parse_event_t::object_end) {
            open_objects.pop_back();
        } else if (event == json::parse_event_t::key) {
            const auto key = parsed.get<std::string>();
            if (!open_objects.back().insert(key).second)
                throw error(where + " has the key '" + one_line(limits::clipped(key)) +
                                "' twice in one object",
                            ErrorKind::unreadable_file);
        }
        return true;
    };
    try {
        return json::parse(text.begin(), text.end(), check);
    } catch (const json::parse_error& found) {
        throw error(where + " is not valid JSON (at byte " + std::to_string(found.byte) + ")",
                    ErrorKind::unreadable_file);
    } catch (const json::out_of_range&) {
        throw error(where + " has a number outside the range of a double",
                    ErrorKind::unreadable_file);
    }
}

}  // namespace apscope::detail
