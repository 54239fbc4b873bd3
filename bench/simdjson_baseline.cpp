#include "bench/simdjson_baseline.h"

#include <simdjson.h>

#include <string>

size_t simdjson_baseline_dom(const char *text, size_t length, float *out, size_t count)
{
    static simdjson::dom::parser parser;
    simdjson::dom::array array;
    if (parser.parse(text, length, false).get(array) != simdjson::SUCCESS)
        return 0;
    size_t n = 0;
    for (simdjson::dom::element element : array) {
        double x;
        if (n == count || element.get(x) != simdjson::SUCCESS)
            return 0;
        out[n++] = static_cast<float>(x);
    }
    return n;
}

size_t simdjson_baseline_ondemand(const char *text, size_t length, float *out, size_t count)
{
    static simdjson::ondemand::parser parser;
    simdjson::ondemand::document document;
    simdjson::ondemand::array array;
    simdjson::padded_string_view view(text, length, length + simdjson::SIMDJSON_PADDING);
    if (parser.iterate(view).get(document) != simdjson::SUCCESS ||
        document.get_array().get(array) != simdjson::SUCCESS)
        return 0;
    size_t n = 0;
    for (auto element : array) {
        double x;
        if (n == count || element.get_double().get(x) != simdjson::SUCCESS)
            return 0;
        out[n++] = static_cast<float>(x);
    }
    return n;
}

#define TEXT_OF(word) #word
#define TEXT(macro)   TEXT_OF(macro)

const char *simdjson_baseline_name(void)
{
    static const std::string name = std::to_string(simdjson::SIMDJSON_VERSION_MAJOR) + "." +
                                    std::to_string(simdjson::SIMDJSON_VERSION_MINOR) + "." +
                                    std::to_string(simdjson::SIMDJSON_VERSION_REVISION) + ", " +
                                    simdjson::get_active_implementation()->name() + ", on demand " +
                                    TEXT(SIMDJSON_BUILTIN_IMPLEMENTATION);
    return name.c_str();
}
