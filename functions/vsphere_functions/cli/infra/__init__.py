"""The manifests below `infra/`, made from the tables that the code runs on."""
