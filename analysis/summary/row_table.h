// The columns of a table of results from any source, which summaries, pools and comparisons read.
// RowTable does not own them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "analysis/statistics/result_columns.h"

namespace apscope::detail {

// The numeric columns.
enum class NumberColumn : std::size_t {
#define APSCOPE_NAME(name, unit, section, pools) name,
    APSCOPE_NUMBER_COLUMNS(APSCOPE_NAME, APSCOPE_NAME, APSCOPE_NAME)
#undef APSCOPE_NAME
};

struct NumberColumnFacts {
    std::string_view name;
    Pools pools;
};
inline constexpr std::array number_columns{
#define APSCOPE_FACTS(name, unit, section, pools) NumberColumnFacts{#name, Pools::pools},
    APSCOPE_NUMBER_COLUMNS(APSCOPE_FACTS, APSCOPE_FACTS, APSCOPE_FACTS)
#undef APSCOPE_FACTS
};
std::optional<NumberColumn> parse_number_column(std::string_view name);

// Codes of a column: equal cells have equal codes, from 0 to below `levels`; -1 is an empty cell.
struct Codes {
    std::span<const std::int32_t> of_row;
    std::size_t levels = 0;
};

struct CodedTexts : Codes {
    std::vector<std::string> names;  // per code, its text

    const std::string& operator[](std::size_t row) const {
        return names[static_cast<std::size_t>(of_row[row])];
    }
};

// The codes of integers, in order of appearance.
struct CodedIntegers {
    std::vector<std::int32_t> codes;
    std::vector<std::int64_t> values;  // per code, its integer

    explicit CodedIntegers(std::span<const std::int64_t> of_row);
};

// A column of numbers, stored as integers of any width or as doubles; NaN is an empty cell.
class Cells {
public:
    Cells() = default;
    explicit Cells(std::span<const double> values) : Cells(values.data(), values.size(), real) {}
    template <class Integer>
    explicit Cells(std::span<const Integer> values)
        : Cells(values.data(), values.size(), static_cast<int>(sizeof(Integer))) {
        static_assert(std::is_integral_v<Integer> && std::is_signed_v<Integer>);
    }

    double operator[](std::size_t row) const {
        switch (width_) {
            case 1: return at<std::int8_t>(row);
            case 2: return at<std::int16_t>(row);
            case 4: return at<std::int32_t>(row);
            case 8: return at<std::int64_t>(row);
            default: return at<double>(row);
        }
    }
    std::size_t size() const { return size_; }

private:
    static constexpr int real = 0;
    Cells(const void* values, std::size_t size, int width)
        : values_(values), size_(size), width_(width) {}
    template <class T>
    double at(std::size_t row) const {
        return static_cast<double>(static_cast<const T*>(values_)[row]);
    }

    const void* values_ = nullptr;
    std::size_t size_ = 0;
    int width_ = real;  // bytes of an integer, or `real`
};

struct RowTable {
    std::size_t rows = 0;
    CodedTexts trace, tensor, role, scheme, format, topology, note;
    Codes step;
    std::vector<std::int64_t> steps;              // the numbers of the codes of `step`
    std::span<const std::uint8_t> wire, skipped;  // one flag per row
    // A column of numbers that the table does not have is of size 0.
    Cells workers;
    std::array<Cells, number_columns.size()> numbers;

    // Throws std::invalid_argument if the table does not have the column.
    Cells operator[](NumberColumn column) const;
    Cells workers_of_rows() const;
    // The number of elements of one worker in a row.
    double elements(std::size_t row, const Cells& count) const {
        return wire[row] ? count[row] / workers[row] : count[row];
    }
};

}  // namespace apscope::detail
