"""The files of a fake machine: device files, procfs and sysfs, and the folder that holds them."""
