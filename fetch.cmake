# nlohmann-json and RE2 where the system does not have them, so that `pip install` needs no packages
# of a distribution: sources from PyPI, by their digests, built into the modules. (RE2: gRPC's copy,
# version 2022-04-01, which needs no Abseil.) MPFR and Boost are not fetched:
# without them there is no oracle.
include(FetchContent)

function(apscope_fetch name path sha256 archive)
  message(STATUS "Not found on this system, so fetched: https://files.pythonhosted.org/packages/${path}")
  # There is no folder `none`: what is fetched is not configured as a project.
  FetchContent_Declare(${name} URL https://files.pythonhosted.org/packages/${path} URL_HASH SHA256=${sha256}
                       DOWNLOAD_NAME ${archive} DOWNLOAD_EXTRACT_TIMESTAMP FALSE SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(${name})
  set(${name}_folder ${${name}_SOURCE_DIR} PARENT_SCOPE)
endfunction()

find_package(nlohmann_json QUIET GLOBAL)
if(NOT TARGET nlohmann_json::nlohmann_json)
  apscope_fetch(json 51/69/a42fddc89a6de959b65b27a15d69de85e88d2f99884e00b1b02c12dce301/nlohmann_json-3.12.0-py3-none-any.whl
                5f6132720fb25d0d70bf0742f8397b49a540dcc193e7312a914f6aa49f054810 json.zip)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE ${json_folder}/nlohmann_json/include)
endif()

find_package(re2 CONFIG QUIET)
find_library(RE2_LIBRARY re2)
if(NOT TARGET re2::re2 AND NOT RE2_LIBRARY)
  if(APSCOPE_CPP AND NOT BUILD_SHARED_LIBS)
    message(FATAL_ERROR "RE2 is not found (Debian: libre2-dev). libapscope as an archive needs it on the system, because whoever links "
                        "the archive links RE2 too; install RE2, or build the shared library with -DBUILD_SHARED_LIBS=ON")
  endif()
  apscope_fetch(grpc 20/53/d9282a66a5db45981499190b77790570617a604a38f3d103d0400974aeb5/grpcio-1.67.1.tar.gz
                3dc2ed4cabea4dc14d5e708c2b426205956077cc5de419b4d4079315017e9732 grpc.tar.gz)
  set(folder ${grpc_folder}/third_party/re2)
  file(GLOB re2_sources ${folder}/re2/*.cc)
  add_library(apscope_re2 STATIC ${re2_sources} ${folder}/util/rune.cc ${folder}/util/strutil.cc)
  target_include_directories(apscope_re2 SYSTEM PUBLIC ${folder})
  target_compile_options(apscope_re2 PRIVATE -w)
  target_link_libraries(apscope_re2 PUBLIC Threads::Threads)
  add_library(re2::re2 INTERFACE IMPORTED GLOBAL)
  target_link_libraries(re2::re2 INTERFACE apscope_re2)
endif()
