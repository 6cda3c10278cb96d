# The target re2::re2, of the package that RE2 installs since 2023, else of its library and header.
if(NOT TARGET re2::re2)
  find_package(re2 CONFIG QUIET)
endif()
if(NOT TARGET re2::re2)
  find_library(RE2_LIBRARY re2)
  find_path(RE2_INCLUDE re2/re2.h)
  if(NOT RE2_LIBRARY OR NOT RE2_INCLUDE)
    message(FATAL_ERROR "RE2 is not found (Debian: libre2-dev): apscope reads regular expressions with it")
  endif()
  add_library(re2::re2 UNKNOWN IMPORTED)
  set_target_properties(re2::re2 PROPERTIES IMPORTED_LOCATION "${RE2_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${RE2_INCLUDE}"
                                            INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
