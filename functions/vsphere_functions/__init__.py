"""Serverless functions that create, show and delete machines and volumes on VMware vSphere."""
