// The one translation unit that compiles Boost.Beast's non-template code (BOOST_BEAST_SEPARATE_COMPILATION).
#include <boost/beast/src.hpp>
