// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The help texts of the subcommands. That of the driver itself is made from its flags (command_line.cc).

#ifndef DRACPU_CLI_USAGE_H_
#define DRACPU_CLI_USAGE_H_

#include <string_view>

namespace dracpu::cli {

inline constexpr std::string_view kUsage =
    "Usage: dracpu [flags]\n"
    "       dracpu health live|ready | topology | devices | plan | state show|verify |\n"
    "              upgrade check|identity | cleanup | config check|migrate|show|schema|reference | log-level "
    "|\n"
    "              introspect metrics | gatherinfo\n"
    "       dracpu --help\n";

inline constexpr std::string_view kHealthUsage =
    "Usage: dracpu health live|ready [--address ADDRESS] [--timeout SECONDS]\n"
    "\n"
    "Asks the driver in this container, standby included, for exec probes. Ends with 0 (yes), 3 (no; the\n"
    "reasons are printed), 1 (nobody answered) or 2 (bad command line).\n"
    "\n"
    "  --address ADDRESS   whom to ask: \"unix:/path\", \":8080\", \"127.0.0.1:8080\" (default: the control\n"
    "                      socket, $DRACPU_SOCKET or /run/dracpu/control.sock)\n"
    "  --timeout SECONDS   how long to wait for the answer (default 3)\n";

inline constexpr std::string_view kIntrospectUsage =
    "Usage: dracpu introspect metrics [--include-memory]\n"
    "\n"
    "Prints the metrics of this driver as a JSON array. Needs no cluster. Topics: metrics.\n";

inline constexpr std::string_view kGatherInfoUsage =
    "Usage: dracpu gatherinfo [--output-dir DIR | --stdout]\n"
    "\n"
    "Reports the CPUs of this node and the configuration of the driver that runs on it, as YAML.\n"
    "\n"
    "  --output-dir DIR   write a new file dracpu-gatherinfo-DATE-TIME-PID.yaml in DIR\n"
    "  --stdout           print the report\n"
    "  neither            write a file in the folder for temporary files, and log its path\n";

inline constexpr std::string_view kTopologyUsage =
    "Usage: dracpu topology [--sysfs-root DIR] [--overlay FILE] [-o text|json|svg]\n"
    "\n"
    "Shows what the driver sees of a machine: sockets, NUMA nodes, caches, cores, threads, PCIe roots.\n"
    "What was odd is told on standard error. Ends with 0, or 2 if DIR or FILE cannot be used.\n"
    "\n"
    "  --sysfs-root DIR   a folder that holds sys/, for instance an unpacked capture (default: this "
    "machine,\n"
    "                     or $HOST_ROOT)\n"
    "  --overlay FILE     a sysfs overlay, as in sysfsOverlay\n"
    "  -o, --output FORM  text (default, for a terminal), json (for programs), svg (for a page)\n";

inline constexpr std::string_view kDevicesUsage =
    "Usage: dracpu devices [--sysfs-root DIR] [--config FILE] [-o yaml|json]\n"
    "\n"
    "Prints the ResourceSlices that this node would publish. Needs no cluster. Ends with 0, or 2 if DIR or "
    "FILE\n"
    "cannot be used.\n"
    "\n"
    "  --sysfs-root DIR   a folder that holds sys/ (default: this machine, or $HOST_ROOT)\n"
    "  --config FILE      the driver's configuration (default: none)\n"
    "  -o, --output FORM  yaml (default) or json\n";

inline constexpr std::string_view kPlanUsage =
    "Usage: dracpu plan --claims FILE [--sysfs-root DIR] [--config FILE] [--free CPULIST] [--state FILE]\n"
    "                   [-o text|json]\n"
    "\n"
    "Shows what claims would get on this node, or why they would be refused. Needs no cluster.\n"
    "Ends with 0 (every claim fits), 3 (one was refused) or 2 (bad input).\n"
    "\n"
    "  --claims FILE      ResourceClaims, ResourceClaimTemplates and Pods, YAML documents or a List; - is\n"
    "                     standard input. A claim without status.allocation is given devices first-fit;\n"
    "                     selectors are not evaluated\n"
    "  --sysfs-root DIR   a folder that holds sys/ (default: this machine, or $HOST_ROOT)\n"
    "  --config FILE      the driver's configuration (default: none)\n"
    "  --free CPULIST     only these CPUs are free, for instance 0-3,8\n"
    "  --state FILE       claims of this state file are held already\n"
    "  -o, --output FORM  text (default) or json\n";

inline constexpr std::string_view kStateUsage =
    "Usage: dracpu state show|verify [--file FILE | --config FILE] [-o text|json]\n"
    "\n"
    "Reads the driver's state file, without the driver, and changes nothing. show prints the claims and who\n"
    "holds them; verify checks the file. Ends with 0 (fine), 3 (damaged, or something was found) or 2 (no\n"
    "such file, bad command line).\n"
    "\n"
    "  --file FILE        the state file (default: where the configuration puts it)\n"
    "  --config FILE      the driver's configuration (default: none)\n"
    "  -o, --output FORM  text (default) or json\n";

inline constexpr std::string_view kUpgradeUsage =
    "Usage: dracpu upgrade check [--kubeconfig FILE] [--config FILE] [--values FILE] [--node NAME]\n"
    "                            [-o text|json]\n"
    "       dracpu upgrade identity --to NAME [--from NAME] [--kubeconfig FILE] [--apply] [-o text|json]\n"
    "\n"
    "check reads a cluster, changes nothing, and tells what would break on the move to this driver, with "
    "the\n"
    "fix. Ends with 0 (nothing that breaks), 3 (something does) or 2 (bad input, or the cluster does not\n"
    "answer). What could not be looked at is listed; it does not change the status.\n"
    "\n"
    "identity plans the move of the driver to another name, and with --apply removes the slices and the\n"
    "DeviceClass of the old one. Ends with 0, 3 (refused: claims hold devices of the old name, or a driver\n"
    "may still run under it), 1 (something could not be removed) or 2.\n"
    "\n"
    "  --kubeconfig FILE  how to reach the API server (default: $KUBECONFIG, or in a pod its service "
    "account)\n"
    "  --config FILE      the configuration that this driver will have (default: that of the driver found)\n"
    "  --values FILE      the values that the chart will have\n"
    "  --node NAME        look at the kubelet and the slices of this node alone\n"
    "  --to NAME          the driver's new name\n"
    "  --from NAME        its old one (default dra.cpu)\n"
    "  --apply            remove; without it the plan is printed\n"
    "  -o, --output FORM  text (default) or json\n";

inline constexpr std::string_view kCleanupUsage =
    "Usage: dracpu cleanup [--kubelet-root-dir DIR] [--cdi-dir DIR] [--config FILE] [--driver NAME]\n"
    "                      [--with-claims] [--apply] [-o text|json]\n"
    "\n"
    "Lists what the driver left on this node after the last uninstall, and with --apply removes it: "
    "sockets,\n"
    "state file, CDI files, metadata files, lock. Only files that it recognises, and no link is followed.\n"
    "Ends with 0, 3 (refused: a driver works here, or claims are held), 1 (something could not be removed) "
    "or\n"
    "2 (bad input).\n"
    "\n"
    "  --kubelet-root-dir DIR  the kubelet's root directory (default: the configuration's)\n"
    "  --cdi-dir DIR           the folder of the CDI files (default: the configuration's)\n"
    "  --config FILE           the configuration that the driver had (default: none)\n"
    "  --driver NAME           only what this name left, after a move to another name\n"
    "  --with-claims           also while claims are on record here\n"
    "  --apply                 remove; without it the list is printed\n"
    "  -o, --output FORM       text (default) or json\n";

inline constexpr std::string_view kConfigUsage =
    "Usage: dracpu config check FILE [--sysfs-overlay FILE]\n"
    "       dracpu config migrate [FILE] [driver flags]\n"
    "       dracpu config show [--defaults] [--address ADDRESS]\n"
    "       dracpu config schema|reference\n"
    "\n"
    "check reads a configuration file, and the sysfs overlay that it names, as the driver would. migrate "
    "prints the v1alpha1 file and the flags as "
    "one\n"
    "v1beta1 file that means the same, comments included. show prints what the driver in this container "
    "uses,\n"
    "or the defaults. schema prints a JSON schema of the v1beta1 form, reference a table of its fields.\n"
    "Ends with 0, 2 (bad input) or 1 (nobody answered).\n"
    "\n"
    "  --sysfs-overlay FILE  check this overlay, not the one that the configuration names\n"
    "  --defaults         every field of the v1beta1 form with its default\n"
    "  --address ADDRESS  whom to ask (default: the control socket, $DRACPU_SOCKET or "
    "/run/dracpu/control.sock)\n";

inline constexpr std::string_view kLogLevelUsage =
    "Usage: dracpu log-level [LEVEL] [--address ADDRESS]\n"
    "\n"
    "Shows, or switches until the next start, the log level of the driver in this container.\n"
    "0 what matters, 2 decisions about claims and containers, 4 how they came about, 6 every message.\n"
    "\n"
    "  --address ADDRESS  whom to ask (default: the control socket, $DRACPU_SOCKET or "
    "/run/dracpu/control.sock)\n";

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_USAGE_H_
