// Tables as Parquet files, without compression: what Arrow and pandas read, with the types that the
// Python package's tables have in pandas.
#pragma once

#include <iosfwd>
#include <string_view>

#include "bindings/cpp/source/written_table.h"

namespace apscope {

// version: the version of this library, which the file states.
void write_parquet(const WrittenTable& table, std::string_view version, std::ostream& out);

}  // namespace apscope
