// The main of every GoogleTest program. ctest tells skipped from passed by the exit status alone, 77 where
// all that ran was skipped: words on the output could turn a failure into a skip.
#include <gmock/gmock.h>

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  testing::InitGoogleMock(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  const bool only_skipped = all.skipped_test_count() > 0 && all.successful_test_count() == 0;
  return failed == 0 && only_skipped ? kSkipped : failed;
}
