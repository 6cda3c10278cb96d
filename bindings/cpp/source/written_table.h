// A table that is written to files: named columns, whose cells are computed when they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace apscope {

struct WrittenTable {
    using Text = std::function<std::string_view(std::size_t row)>;
    struct Integer {
        std::function<std::optional<std::int64_t>(std::size_t row)> at;  // none: an empty cell
        bool nullable = true;  // the column may have empty cells, in this table or in another
    };
    using Real = std::function<double(std::size_t row)>;  // NaN: an empty cell
    using Flag = std::function<bool(std::size_t row)>;
    struct Column {
        std::string name;
        std::variant<Text, Integer, Real, Flag> cells;
    };

    std::size_t rows = 0;
    std::vector<Column> columns = {};

    void text(std::string name, Text at) { columns.push_back({std::move(name), std::move(at)}); }
    void real(std::string name, Real at) { columns.push_back({std::move(name), std::move(at)}); }
    void flag(std::string name, Flag at) { columns.push_back({std::move(name), std::move(at)}); }
    void integer(std::string name, std::function<std::optional<std::int64_t>(std::size_t row)> at,
                 bool nullable = true) {
        columns.push_back({std::move(name), Integer{std::move(at), nullable}});
    }
};

// The table as CSV, with the bytes of the Python package: numbers in the fewest digits that read
// back to the same number, text in quotes, empty cells for missing values. Text that begins like a
// formula gets an apostrophe before it.
void write_csv(const WrittenTable& table, std::ostream& out);

}  // namespace apscope
