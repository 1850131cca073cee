// One file a command: daemon/cli/<name>_command.cpp adds its subcommand, options, examples and callback to
// `app`. The callback sets exit_code (daemon/cli/exit_codes.hpp).
#pragma once

#include <CLI/App.hpp>

namespace flyball::cli {

void add_serve_command(CLI::App& app, int& exit_code);
void add_engine_command(CLI::App& app, int& exit_code);
void add_run_command(CLI::App& app, int& exit_code);
void add_advise_command(CLI::App& app, int& exit_code);
void add_explain_command(CLI::App& app, int& exit_code);
void add_graph_command(CLI::App& app, int& exit_code);
void add_simulate_command(CLI::App& app, int& exit_code);
void add_why_not_command(CLI::App& app, int& exit_code);
void add_prove_command(CLI::App& app, int& exit_code);
void add_usage_command(CLI::App& app, int& exit_code);
void add_app_command(CLI::App& app, int& exit_code);
void add_app_new_command(CLI::App& app_command, int& exit_code);  // below `app`
void add_ps_command(CLI::App& app, int& exit_code);
void add_load_command(CLI::App& app, int& exit_code);
void add_unload_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_engines_command(CLI::App& app, int& exit_code);
void add_capabilities_command(CLI::App& app, int& exit_code);
void add_probe_command(CLI::App& app, int& exit_code);
void add_inspect_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app, int& exit_code);
void add_models_command(CLI::App& app, int& exit_code);
void add_models_find_command(CLI::App& models_command, int& exit_code);  // below `models`, as the next four
void add_models_pull_command(CLI::App& models_command, int& exit_code);
void add_models_list_command(CLI::App& models_command, int& exit_code);
void add_models_rm_command(CLI::App& models_command, int& exit_code);
void add_models_verify_command(CLI::App& models_command, int& exit_code);
void add_make_model_command(CLI::App& app, int& exit_code);
void add_calibrate_command(CLI::App& app, int& exit_code);
void add_measure_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_profile_command(CLI::App& app, int& exit_code);
void add_tune_command(CLI::App& app, int& exit_code);
void add_version_command(CLI::App& app, int& exit_code);
void add_completions_command(CLI::App& app, int& exit_code);

}  // namespace flyball::cli
