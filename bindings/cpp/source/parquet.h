// Tables as Parquet files, without compression. Arrow and pandas read the files; in pandas their
// columns have the types of the Python package's tables.
#pragma once

#include <iosfwd>
#include <string_view>

#include "bindings/cpp/source/written_table.h"

namespace apscope {

// Writes a table. `version` is that of this library, which the file names as its creator.
void write_parquet(const WrittenTable& table, std::string_view version, std::ostream& out);

}  // namespace apscope
