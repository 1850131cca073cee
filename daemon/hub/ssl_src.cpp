// The one translation unit that compiles the non-template code of Boost.Asio's TLS streams
// (BOOST_ASIO_SEPARATE_COMPILATION).
#include <boost/asio/ssl/impl/src.hpp>
